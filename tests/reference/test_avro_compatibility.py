"""Random pairs of Avro schemas: our verdict is that of Confluent's checker, our words are those of Avro's library."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas.client.schemas import InvalidSchema
from barnabas.client.schemas.avro.compatibility import (
    MANY_STEPS_MAX,
    AmbiguousField,
    Comparison,
    incompatibilities,
)
from barnabas.client.schemas.avro.schema import AvroSchema
from tests.support import reference_libs

PAIRS = 2_000
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
PROPERTIES = [1, 1.5e12, "é\u0001", None, {"z": 1, "a": 2}]
DEFAULTS = [None, 1, 1.0, True, "s", [], {}, 12345678901.5, 0.0001]
JAVA = Path(__file__).parent / "java" / "AvroPairs.java"


def schema(random: Random, depth: int, names: list[str]) -> Any:
    chance = random.random()
    if depth <= 0 or chance < 0.35:
        kind = random.choice(PRIMITIVES)
        if random.random() < 0.15:
            return {"type": kind, "logicalType": "date", "b": random.choice(PROPERTIES), "a": 1}
        return random.choice(names) if names and random.random() < 0.25 else kind
    if chance < 0.45:
        return {"type": "array", "items": schema(random, depth - 1, names)}
    if chance < 0.55:
        return {"type": "map", "values": schema(random, depth - 1, names)}
    if chance < 0.67:
        return [schema(random, depth - 1, names) for _ in range(random.randint(1, 3))]
    return named(random, depth, names, chance)


def named(random: Random, depth: int, names: list[str], chance: float) -> dict[str, Any]:
    full_name = random.choice(["", "x.", "y.z."]) + random.choice("ABC")
    tree: dict[str, Any] = {"name": full_name}
    if full_name in names:  # Avro 1.12 takes some types that are defined twice
        return {"type": "array", "items": full_name}
    if random.random() < 0.2:
        tree["doc"] = random.choice(["d", ""])
    if random.random() < 0.2:
        tree["aliases"] = [random.choice(["A", "x.B", "y.z.C"])]
    names.append(full_name)
    if chance < 0.74:
        return tree | {"type": "fixed", "size": random.randint(1, 2)}
    if chance < 0.83:
        symbols = random.sample("PQRS", random.randint(1, 4))
        default = {"default": random.choice(symbols)} if random.random() < 0.3 else {}
        return tree | {"type": "enum", "symbols": symbols} | default
    fields = []
    for name in random.sample("fgh", random.randint(0, 3)):
        field: dict[str, Any] = {"name": name, "type": schema(random, depth - 1, names)}
        if random.random() < 0.4:
            field["default"] = random.choice(DEFAULTS)
        if random.random() < 0.15:
            field["aliases"] = [random.choice("klm")]
        if random.random() < 0.1:
            field["order"] = random.choice(["descending", "ignore", "ascending"])
        fields.append(field)
    return tree | {"type": "record", "fields": fields}


def changed(random: Random, tree: Any) -> Any:
    """The same with a few differences, as schemas evolve."""
    if isinstance(tree, list):
        return [changed(random, each) for each in tree]
    if isinstance(tree, str):
        return random.choice(PRIMITIVES) if tree in PRIMITIVES and random.random() < 0.15 else tree
    if not isinstance(tree, dict):
        return tree
    copy = {key: changed(random, each) if key in ("type", "items", "values") else each for key, each in tree.items()}
    if "fields" in copy:
        kept = [changed(random, each) for each in copy["fields"] if random.random() > 0.15]
        new = {"name": random.choice("ijklm"), "type": "int"} | ({"default": 3} if random.random() < 0.5 else {})
        copy["fields"] = kept + ([new] if random.random() < 0.3 else [])
    if "symbols" in copy and random.random() < 0.3:
        copy["symbols"] = random.sample("PQRS", 2)
        copy.pop("default", None)
    if "size" in copy and random.random() < 0.3:
        copy["size"] = 3
    return copy


def ask_java(pairs: list[tuple[str, str]], directory: Path) -> list[dict[str, Any]]:
    try:
        classpath = f"{reference_libs.registry_libs()}/*"
        java = reference_libs.java()
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath, str(JAVA)]
    given = "\n".join(json.dumps(pair) for pair in pairs)
    done = subprocess.run(command, input=given.encode(), capture_output=True, timeout=110, cwd=directory, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def test_random_pairs(tmp_path: Path) -> None:
    random = Random(20_26)
    pairs = []
    for _ in range(PAIRS):
        reader = schema(random, 4, [])
        writer = changed(random, reader) if random.random() < 0.8 else schema(random, 4, [])
        pairs.append((json.dumps(reader), json.dumps(writer)))
    answers = ask_java(pairs, tmp_path)
    assert len(answers) == PAIRS
    compared = refused = unreadable = 0
    for (reader_text, writer_text), answer in zip(pairs, answers, strict=True):
        shown = f"{reader_text}\n{writer_text}\n{answer}"
        try:
            reader_schema, writer_schema = AvroSchema(reader_text), AvroSchema(writer_text)
            found = incompatibilities(reader_schema.root, writer_schema.root)
        except (InvalidSchema, AmbiguousField):
            assert "error" in answer, shown
            refused += 1
            continue
        assert "error" not in answer, shown
        assert reader_schema.canonical == answer["canonical"], shown
        assert [f"{each.rule}|{each.path}|{each.detail}" for each in found] == answer["incompatibilities"], shown
        assert (not found) == answer["confluent"], shown
        by_name = Comparison(MANY_STEPS_MAX, by_name=True).compare(reader_schema.root, writer_schema.root, ())
        assert (not by_name) == answer["confluent"], shown  # as large unions are compared
        compared += 1
        unreadable += bool(found)
    assert compared > PAIRS * 0.6
    assert refused > PAIRS * 0.02
    assert PAIRS * 0.1 < unreadable < compared * 0.9
