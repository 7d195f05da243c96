"""Tests that are SQL alone, in files of many: `--@test: name`, statements, and ASSERT for what they must have done.

ASSERT VALUES and ASSERT NULL VALUES take the records of a stream or table one after the other, as they were written,
and look at the columns that they name. ASSERT STREAM and ASSERT TABLE look at a definition. `--@expected.error` and
`--@expected.message` say that a test ends with an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barnabas.pipelines.sql.definitions import check_properties, columns_of
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.inserts import kind_of, literal, value_of
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import each_statement, parse_statement, split_statements
from barnabas.pipelines.sql.metastore import DataSource
from barnabas.pipelines.sql.operators import ReadSource
from barnabas.pipelines.sql.relations import ROWTIME, WINDOWEND, WINDOWSTART, Relation
from barnabas.pipelines.sql.runner import Bench, Written
from barnabas.pipelines.sql.server.views import reader_of
from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.serdes import SerdeError

DIRECTIVE = re.compile(r"--@(test|expected\.error|expected\.message)\s*:\s*(.*?)\s*")
ASSERTION = re.compile(r"(\s*)ASSERT\s+(NULL\s+VALUES|VALUES|STREAM|TABLE)\b", re.IGNORECASE)
DIFFERS = "Expected record does not match actual."


@dataclass(frozen=True)
class Script:
    """One test of a file. `error` and `message` are what it must end with, if they are not None."""

    name: str
    path: Path
    text: str
    error: str | None
    message: str | None


def scripts_in(path: Path) -> list[Script]:
    """The tests of a file. Lines stay where they are, so that errors tell them right."""
    tests: list[tuple[dict[str, str], int]] = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        found = DIRECTIVE.fullmatch(line.strip())
        if found is None:
            continue
        what, value = found.groups()
        if what == "test":
            tests.append(({"test": value}, number))
        elif not tests:
            raise SqlError(f"{path}: line {number + 1}: {line.strip()} comes before the first --@test: name.")
        else:
            tests[-1][0][what] = value
    if not tests:
        raise SqlError(f"{path} has no tests: each begins with a line --@test: name.")
    ends = [*(number for _, number in tests[1:]), len(lines)]
    return [
        Script(
            said["test"],
            path,
            "\n" * begin + "\n".join(lines[begin:end]),
            said.get("expected.error"),
            said.get("expected.message"),
        )
        for (said, begin), end in zip(tests, ends, strict=True)
    ]


def tried(script: Script) -> str | None:
    """What went wrong, or None."""
    problem: str | None = None
    try:
        with_asserts(script.text)
    except (SqlError, StreamsError, OSError) as error:
        problem = str(error)
    if script.error is None and script.message is None:
        return problem
    if problem is None:
        return "It should have ended with an error, and there was none."
    if script.message is not None and script.message not in problem:
        return f"It should have ended with: {script.message}\nIt ended with: {problem}"
    return None


def with_asserts(text: str) -> None:
    trial = Trial()
    try:
        for statement in split_statements(text):
            trial.run(statement)
    finally:
        trial.bench.close()


@dataclass
class Trial:
    bench: Bench = field(default_factory=Bench)
    _taken: dict[str, int] = field(default_factory=dict)  # records of a topic that were looked at
    _written: dict[str, list[Written]] = field(default_factory=dict)

    def run(self, text: str) -> None:
        found = ASSERTION.match(text)
        if found is None:
            self.bench.execute(text)
            for one in self.bench.taken():
                self._written.setdefault(one.topic, []).append(one)
            return
        what, rest = " ".join(found[2].upper().split()), text[found.end() :]
        types = self.bench.engine.metastore.types
        if what in ("STREAM", "TABLE"):
            statement = parse_statement(f"{found[1]}CREATE {what}{rest}", types)
            assert isinstance(statement, tree.CreateSource)
            self.assert_source(statement)
            return
        if what == "NULL VALUES":
            rest = re.sub(r"\bKEY(?=\s*\()", "VALUES", rest, count=1, flags=re.IGNORECASE)
        (values,) = each_statement(f"{found[1]}INSERT INTO{rest};", types, {})
        assert isinstance(values, tree.InsertValues)
        self.assert_values(values, gone=what == "NULL VALUES")

    def assert_values(self, statement: tree.InsertValues, *, gone: bool) -> None:
        source = self.bench.engine.metastore.source(statement.target)
        columns = list(statement.columns) or [one.name for one in (source.keys if gone else source.columns)]
        if len(columns) != len(statement.values):
            raise SqlError(f"ASSERT names {len(columns)} columns and has {len(statement.values)} values.")
        relation = Relation((), (), self.bench.engine.metastore.functions)
        bounds = (ROWTIME, WINDOWSTART, WINDOWEND)
        wanted = {
            name: value_of(relation, name, one, kind_of(source, ROWTIME if name in bounds else name))
            for name, one in zip(columns, statement.values, strict=True)
        }
        reader = reader_of(source)
        at = self._taken.get(source.topic, 0)
        there = self._written.get(source.topic, [])
        if at >= len(there):
            raise SqlError(f"{DIFFERS} There is no record of {source.name} behind the {at} that were looked at.")
        self._taken[source.topic] = at + 1
        found = columns_of_record(source, there[at], reader)
        if gone != (there[at].value is None):
            raise SqlError(f"{DIFFERS} Record {at} of {source.name} is {'no' if gone else 'a'} tombstone: {found}.")
        if any(found.get(name) != value for name, value in wanted.items()):
            given = {name: found.get(name) for name in wanted}
            raise SqlError(
                f"{DIFFERS} Record {at} of {source.name}: Expected {literal(wanted)} but was {literal(given)}."
            )

    def assert_source(self, statement: tree.CreateSource) -> None:
        source = self.bench.engine.metastore.source(statement.name)
        kind = "TABLE" if statement.table else "STREAM"
        if source.kind != kind:
            raise SqlError(
                f"Expected type does not match actual for source {source.name}. Expected: {kind}, Actual: {source.kind}"
            )
        expected = [(one.name, str(one.kind), one.role) for one in columns_of(statement)]
        actual = [(one.name, str(one.kind), one.role) for one in source.columns]
        if expected and expected != actual:
            raise SqlError(
                f"Expected schema does not match actual for source {source.name}. Expected: {shown(expected)}, "
                f"Actual: {shown(actual)}"
            )
        properties = check_properties(statement.properties)
        for name, what, value in (
            ("KAFKA_TOPIC", "kafka topic", source.topic),
            ("KEY_FORMAT", "key format", source.key_format.name),
            ("VALUE_FORMAT", "value format", source.value_format.name),
            ("TIMESTAMP", "timestamp column", source.timestamp_column),
            ("TIMESTAMP_FORMAT", "timestamp format", source.timestamp_format),
            ("WRAP_SINGLE_VALUE", "value serde features", source.value_format.get("WRAP_SINGLE_VALUE", True)),
        ):
            given = properties.get(name)
            plain = name in ("KAFKA_TOPIC", "TIMESTAMP_FORMAT")
            if given is not None and str(given) != str(value) and (plain or str(given).upper() != str(value).upper()):
                raise SqlError(
                    f"Expected {what} does not match actual for source {source.name}. Expected: {given}, "
                    f"Actual: {value}"
                )


def columns_of_record(source: DataSource, record: Written, reader: ReadSource) -> dict[str, Any]:
    """A record as its columns; of a tombstone those of the key."""
    assert reader.key_codec is not None
    assert reader.value_codec is not None
    key: bytes | None = record.key
    bounds: tuple[int, ...] = ()
    try:
        if key is not None and source.window is not None:
            key, bounds = reader.unwindowed(key)
        keys = (None,) * len(source.keys) if key is None else reader.key_codec.decode(key)
        values = (None,) * len(source.values) if record.value is None else reader.value_codec.decode(record.value)
    except SerdeError as error:
        raise SqlError(f"A record of {source.name} can't be read: {error}") from None
    names = [*(one.name for one in source.keys), *(one.name for one in source.values)]
    found = dict(zip(names, (*keys, *values), strict=True)) | {ROWTIME: record.timestamp_ms}
    headers = reader.header_values(record.headers) if source.headers else []
    found |= dict(zip([one.name for one in source.headers], headers, strict=True))
    return found | dict(zip((WINDOWSTART, WINDOWEND), bounds, strict=False))


def shown(columns: list[tuple[str, str, str]]) -> str:
    return ", ".join(f"`{name}` {kind}{' KEY' if role == 'KEY' else ''}" for name, kind, role in columns)


__all__ = ["Script", "scripts_in", "tried"]
