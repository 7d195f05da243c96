"""Transformations, predicates, converters and header literals give what Apache Connect's own classes give.

Thousands of questions (random records with and without schemas, every transformation with several settings) go to a
Java program and to us. Schemaless maps of Java have no order, so documents are compared parsed; refusals are compared
by their class, and data errors by their words where they name no Java type that we do not tell apart.
"""

from __future__ import annotations

import base64
import json
import string
import struct
import subprocess
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas.pipelines.connect.converters.json import JsonConverter
from barnabas.pipelines.connect.data.header_values import parse, write
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.errors import ConnectError
from barnabas.pipelines.connect.plugins import make_converter, make_predicate, make_transformation, plugins
from tests.support import reference_libs

JAVA = Path(__file__).parent / "java" / "ConnectRecords.java"
PACKAGE = "org.apache.kafka.connect.transforms."
RECORDS = 40
NAMES = ["a", "b", "c", "when", "nested.x"]
SCALARS: dict[str, list[Any]] = {
    "int8": [0, 1, -128, 127],
    "int16": [0, 300, -32768],
    "int32": [0, 70000, -1, 2**31 - 1],
    "int64": [0, 1_700_000_000_000, -5, 2**63 - 1, 1_700_000_000],
    "float": [0.0, 1.5, -2.25, 3.4e38, 0.1],
    "double": [0.0, 1.5, 1e10, 1.0e-5, -12345.125, 0.1],
    "boolean": [True, False],
    "string": ["", "x", "12", "-7", "3.5", "true", "2024-03-01", "2024-03-01 10:20:30", 'é"\\', "999999999999"],
    "bytes": ["", "AAEC", "/w=="],
}
LOGICAL = [
    ("int32", "org.apache.kafka.connect.data.Date", {}, [0, 19783, -1]),
    ("int32", "org.apache.kafka.connect.data.Time", {}, [0, 86_399_999, 3_600_000]),
    ("int64", "org.apache.kafka.connect.data.Timestamp", {}, [0, 1_700_000_000_123, -1, 86_400_000]),
    ("bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2"}, ["AA==", "/w==", "AYag", "fw=="]),
]


def leaf(random: Random) -> tuple[dict[str, Any], Any]:
    if random.random() < 0.25:
        kind, name, parameters, values = random.choice(LOGICAL)
        schema: dict[str, Any] = {"type": kind, "name": name, "version": 1}
        schema |= {"parameters": parameters} if parameters else {}
    else:
        kind = random.choice(list(SCALARS))
        schema, values = {"type": kind}, SCALARS[kind]
    schema["optional"] = random.random() < 0.4
    if random.random() < 0.15:
        schema["default"] = random.choice(values)
    may_miss = schema["optional"] or "default" in schema
    return schema, None if may_miss and random.random() < 0.3 else random.choice(values)


def with_schema(random: Random, depth: int = 2) -> tuple[dict[str, Any], Any]:
    chance = random.random()
    if depth == 0 or (chance < 0.25 and depth < 2) or chance < 0.05:
        return leaf(random)
    if chance < 0.32 and depth < 2:
        items, value = leaf(random)
        return {"type": "array", "items": items, "optional": False}, [value] * random.randint(0, 2)
    if chance < 0.36 and depth < 2:
        items, value = leaf(random)
        schema = {"type": "map", "keys": {"type": "string"}, "values": items, "optional": False}
        return schema, dict.fromkeys("kl"[: random.randint(0, 2)], value)
    fields, values = [], {}
    for name in random.sample(NAMES, random.randint(1, len(NAMES))):
        field, values[name] = with_schema(random, depth - 1)
        fields.append(field | {"field": name})
    schema = {"type": "struct", "fields": fields, "optional": random.random() < 0.3}
    schema |= {"name": "n.S", "version": 3, "doc": "d", "parameters": {"p": "q"}} if random.random() < 0.3 else {}
    return schema, values


def without_schema(random: Random, depth: int = 2) -> Any:
    if depth == 0 or random.random() < 0.1:
        plain = [value for kind in ("int64", "double", "boolean", "string") for value in SCALARS[kind]]
        return random.choice([None, [1, "x"], *plain])
    return {name: without_schema(random, depth - 1) for name in random.sample(NAMES, random.randint(0, 5))}


def encoded(tree: Any) -> str:
    return base64.b64encode(json.dumps(tree).encode()).decode()


def record(random: Random) -> dict[str, Any]:
    schemas = random.random() < 0.6

    def side() -> str | None:
        if random.random() < 0.08:
            return None
        if not schemas:
            return encoded(without_schema(random))
        schema, payload = with_schema(random)
        return encoded({"schema": schema, "payload": payload})

    headers = [
        [random.choice("hij"), random.choice(["1", "x", "[1,2]", "true", "3.5"])] for _ in range(random.randint(0, 3))
    ]
    time = random.choice([None, 0, 1_700_000_000_123])
    topic = random.choice(["orders", "topic-1", "a.b"])
    sink = random.random() < 0.5
    return {"schemas": schemas, "key": side(), "value": side(), "headers": headers, "timestamp": time, "topic": topic,
            "sink": sink}  # fmt: skip


def settings() -> list[tuple[str, dict[str, str]]]:
    sided: list[tuple[str, dict[str, str]]] = [
        *(("Cast", {"spec": f"a:{kind},b:string"}) for kind in
          ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")),
        *(("Cast", {"spec": kind}) for kind in ("int8", "int64", "float32", "string", "boolean")),
        ("Cast", {"spec": "a:int32", "replace.null.with.default": "false"}),
        ("Cast", {"spec": "a:nope"}),
        ("ExtractField", {"field": "a"}),
        ("ExtractField", {"field": "a", "replace.null.with.default": "false"}),
        ("ExtractField", {"field": "a.b", "field.syntax.version": "V2"}),
        ("ExtractField", {"field": "`nested.x`.a", "field.syntax.version": "V2"}),
        ("Flatten", {}),
        ("Flatten", {"delimiter": "_"}),
        ("HeaderFrom", {"fields": "a", "headers": "from_a", "operation": "copy"}),
        ("HeaderFrom", {"fields": "b", "headers": "from_b", "operation": "move"}),
        ("HoistField", {"field": "line"}),
        ("InsertField", {"static.field": "data_source", "static.value": "test"}),
        ("InsertField", {"topic.field": "t!", "timestamp.field": "ts?", "partition.field": "p"}),
        ("InsertField", {"offset.field": "o"}),
        ("InsertField", {}),
        ("MaskField", {"fields": "a,b"}),
        ("MaskField", {"fields": "a", "replacement": "9"}),
        ("MaskField", {"fields": "b", "replacement": "x"}),
        ("ReplaceField", {"exclude": "a", "renames": "b:bb"}),
        ("ReplaceField", {"include": "a,c"}),
        ("SetSchemaMetadata", {"schema.name": "new.Name", "schema.version": "7"}),
        *(("TimestampConverter", {"field": "a", "target.type": kind, "format": "yyyy-MM-dd HH:mm:ss"}) for kind in
          ("string", "unix", "Date", "Time", "Timestamp")),
        ("TimestampConverter", {"field": "b", "target.type": "unix", "unix.precision": "seconds"}),
        ("TimestampConverter", {"field": "b", "target.type": "Timestamp", "unix.precision": "microseconds"}),
        ("TimestampConverter", {"field": "a", "target.type": "string", "format": "EEE, d MMM yyyy HH:mm:ss.SSS Z"}),
        ("TimestampConverter", {"target.type": "Timestamp", "format": "yyyy-MM-dd"}),
        ("TimestampConverter", {"target.type": "string"}),
    ]  # fmt: skip
    found = [(f"{name}${side}", given) for name, given in sided for side in ("Key", "Value")]
    return [
        *found,
        ("ValueToKey", {"fields": "a"}),
        ("ValueToKey", {"fields": "b,c", "replace.null.with.default": "false"}),
        ("DropHeaders", {"headers": "h,i"}),
        ("Filter", {}),
        *(("InsertHeader", {"header": "new", "value.literal": text}) for text in ("x", "12", "3.5", "true", "[1,2]")),
        ("RegexRouter", {"regex": "(.*)-(\\d+)", "replacement": "$1_no$2"}),
        ("RegexRouter", {"regex": "orders", "replacement": "bestellungen"}),
        ("TimestampRouter", {}),
        ("TimestampRouter", {"topic.format": "${topic}_${timestamp}", "timestamp.format": "yyyy-MM"}),
    ]


def ask_java(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        classpath = f"{reference_libs.connect_libs()}/*"
        java = reference_libs.java()
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath, str(JAVA)]
    given = "\n".join(json.dumps(each) for each in questions).encode()
    done = subprocess.run(command, input=given, capture_output=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def read_record(given: dict[str, Any]) -> Record:
    converter = JsonConverter({"schemas.enable": str(given["schemas"]).lower()}, is_key=False)

    def side(name: str) -> Any:
        return converter.to_connect("t", None if given[name] is None else base64.b64decode(given[name]))

    key, value = side("key"), side("value")
    headers = tuple(Header(name, *reversed(parse(text))) for name, text in given["headers"])
    sink = given["sink"]
    return Record(
        topic=given["topic"],
        key=key.value,
        key_schema=key.schema,
        value=value.value,
        value_schema=value.schema,
        partition=3 if sink else None,
        offset=42 if sink else None,
        timestamp=given["timestamp"],
        headers=headers,
    )


def our_answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        transformation = make_transformation(question["class"], question["settings"])
        found = transformation.apply(read_record(question["record"]))
        if found is None:
            return {"dropped": True}
        schemas = str(question["record"]["schemas"]).lower()
        converter = JsonConverter({"schemas.enable": schemas}, is_key=False)
        return {
            "topic": found.topic,
            "key": text_of(converter.to_bytes("t", found.key_schema, found.key)),
            "value": text_of(converter.to_bytes("t", found.value_schema, found.value)),
            "timestamp": found.timestamp,
            "headers": [
                [each.key, str(each.schema.type) if each.schema else "null",
                 None if each.value is None else write(each.value)]
                for each in found.headers
            ],
        }  # fmt: skip
    except ConnectError as error:
        return {"error": error.java_class, "message": str(error)}


def text_of(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Documents parsed; of errors the class."""
    if "error" in answer:
        kind = answer["error"].rpartition(".")[2]
        # A format that is missing is a NullPointerException there.
        for other in ("SchemaBuilderException", "NullPointerException"):
            kind = kind.replace(other, "DataException")
        return {"error": kind}
    answer = answer | {"headers": [[*each[:2], parsed_text(each[2])] for each in answer.get("headers", ())]}
    return {
        name: json.loads(base64.b64decode(value)) if name in ("key", "value") and value is not None else value
        for name, value in answer.items()
    }


def parsed_text(text: str | None) -> Any:
    return sorted(text) if text is not None and text.startswith("{") else text  # maps have no order in Java


def test_every_transformation_gives_what_connects_own_gives() -> None:
    random = Random(4_31)
    questions = [
        {"do": "transform", "class": PACKAGE + name, "settings": given, "record": record(random)}
        for name, given in settings()
        for _ in range(RECORDS)
    ]
    answers = ask_java(questions)
    counts: Counter[str] = Counter()
    for question, answer in zip(questions, answers, strict=True):
        ours = our_answer(question)
        documents = [
            None if question["record"][side] is None else base64.b64decode(question["record"][side]).decode()
            for side in ("key", "value")
        ]
        shown = f"\n{question}\n{documents}\nConnect: {answer}\nours:    {ours}"
        if "between the years 1 and 9999" in ours.get("message", ""):
            continue  # Java has later ones
        assert comparable(ours) == comparable(answer), shown
        counts["error" if "error" in answer else "record"] += 1
    named = {each.name for each in plugins() if each.type == "transformation" and each.name.startswith(PACKAGE)}
    assert named == {question["class"] for question in questions}
    assert counts["record"] > len(questions) * 0.4
    assert counts["error"] > len(questions) * 0.05


def test_predicates() -> None:
    random = Random(8)
    chosen = [
        ("HasHeaderKey", {"name": "h"}),
        ("RecordIsTombstone", {}),
        ("TopicNameMatches", {"pattern": "topic-\\d"}),
    ]
    questions = [
        {"do": "predicate", "class": f"{PACKAGE}predicates.{name}", "settings": given, "record": record(random)}
        for name, given in chosen
        for _ in range(30)
    ]
    for question, answer in zip(questions, ask_java(questions), strict=True):
        found = make_predicate(question["class"], question["settings"]).test(read_record(question["record"]))
        assert {"found": found} == answer, question


CONVERTERS = [
    ("org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "true"}),
    ("org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "false"}),
    ("org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "false", "decimal.format": "NUMERIC"}),
    ("org.apache.kafka.connect.storage.StringConverter", {}),
    *((f"org.apache.kafka.connect.converters.{name}Converter", {}) for name in
      ("ByteArray", "Boolean", "Short", "Integer", "Long", "Float", "Double")),
]  # fmt: skip


def test_converters_write_the_bytes_that_connects_own_write() -> None:
    random = Random(15)
    questions: list[dict[str, Any]] = []
    for name, given in CONVERTERS:
        for _ in range(120):
            schema, payload = leaf(random) if random.random() < 0.5 else with_schema(random)
            data = encoded({"schema": schema, "payload": payload})
            asked = {"do": "convert", "class": name, "settings": given, "key": False}
            questions.append(asked | {"read": False, "data": data})
            size = random.choice([0, 1, 2, 4, 8])
            some = bytes(random.choices(range(128), k=size))
            raw = random.choice([some, b"\x01", b"\x00"])
            if "FloatConverter" in name:  # Java before 19 does not print the shortest digits
                raw = random.choice([b"", b"abc", struct.pack(">f", 1.5), struct.pack(">f", -2.25)])
            if "Json" in name:  # Jackson does not look at what follows a document
                raw = random.choice(
                    [b'{"a":[1,2.5,null,"x"]}', b"7", b"[", b"{", b'"x"', b"", b"null", b'{"schema":1}']
                )
            questions.append(asked | {"read": True, "data": text_of(raw)})
    with_schemas = JsonConverter({"schemas.enable": "true"}, is_key=False)
    written = 0
    for question, answer in zip(questions, ask_java(questions), strict=True):
        shown = f"{question}\n{base64.b64decode(question['data'])!r}\nConnect: {answer}"
        try:
            converter = make_converter(question["class"], question["settings"])
            data = base64.b64decode(question["data"])
            if question["read"]:
                found = converter.to_connect("t", data)
                ours = with_schemas.to_bytes("t", found.schema, found.value)
            else:
                given = with_schemas.to_connect("t", data)
                if any(mark in java_text(given.value) for mark in ("[B@", "UTC")):
                    continue  # an address in memory, or the zone of the machine
                ours = converter.to_bytes("t", given.schema, given.value)
        except ConnectError:
            assert "error" in answer, shown
            continue
        assert "error" not in answer, shown
        assert text_of(ours) == answer["data"] or parsed(ours) == parsed(answer["data"]), f"{shown}\nours:    {ours!r}"
        written += 1
    assert written > len(questions) * 0.3


def parsed(data: bytes | str | None) -> Any:
    """Maps have no order in Java."""
    try:
        return json.loads(base64.b64decode(data) if isinstance(data, str) else data or b"")
    except ValueError:
        return data


def test_texts_of_headers_have_the_types_that_connect_gives_them() -> None:
    texts = ["", "x", "null", "true", "false", "True", "1", "-128", "128", "70000", "99999999999", "1e3", "1.5",
             "-0.25", "1e40", "1e400", "99999999999999999999", "2024-03-01", "10:20:30.123Z",
             "2024-03-01T10:20:30.123Z",
             "[1,2,3]", "[1,300]", '["a","b"]', "[]", '{"a":1}', '{"a":"b","c":"d"}', "{}", "[1,", "[a]", '"quoted"',
             "a b", " 12 ", "+5", "0.1", "[1.5,2]", '["2024-03-01"]', "[true,false]", "[null,1]"]  # fmt: skip
    random = Random(3)
    texts += ["".join(random.choices(string.ascii_letters + "-_ /", k=8)) for _ in range(30)]
    questions = [{"do": "header", "text": text} for text in texts]
    for text, answer in zip(texts, ask_java(questions), strict=True):
        found = parse(text)
        kind = "null" if found.schema is None else str(found.schema.type)
        if text not in ("[]", "{}"):  # of no schema here, of a schema without items there
            assert kind == answer["type"], (text, answer)
        assert ("null" if found.value is None else write(found.value)) == answer["text"], (text, answer)
