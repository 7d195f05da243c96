"""The test runner: statements, records in, records out; without broker and without Spark.

All queries of the statements run in this process. A record goes through all of them before the next one comes, as if
there were no cache: every change gives a row.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.pipelines.sql.definitions import check_written
from barnabas.pipelines.sql.engine import DEFINING, Engine, PersistentQuery, check_function
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.formats.codecs import Codec, codec_of
from barnabas.pipelines.sql.formats.json import coercion
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import each_statement
from barnabas.pipelines.sql.metastore import DataSource
from barnabas.pipelines.sql.operators import thawed
from barnabas.pipelines.sql.plan.planner import ROWS_TOPIC, Planned, plan
from barnabas.pipelines.sql.setting_names import bare_name
from barnabas.pipelines.streams.driver import TopologyTestDriver, milliseconds_of
from barnabas.pipelines.streams.windows import Windowed

MOCK_REGISTRY = "mock://ksql-test-runner"


class CaseRecord(NamedTuple):
    """A record whose key and value are as JSON has them; `window` is (start, end) or None."""

    topic: str
    key: Any
    value: Any
    timestamp_ms: int
    window: tuple[int, int] | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Written(NamedTuple):
    """A record as its topic has it."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    inserted: bool = False  # by INSERT ... VALUES, not by a query


@dataclass
class Running:
    driver: TopologyTestDriver
    topics: set[str]
    sinks: set[str]


@dataclass
class Bench:
    """Statements one by one, records one by one. `output` has what was written to each topic since it was read."""

    engine: Engine = field(default_factory=lambda: Engine(settings={"ksql.schema.registry.url": MOCK_REGISTRY}))
    partitions: int = 1
    _running: dict[str, Running] = field(default_factory=dict)
    _written: list[Written] = field(default_factory=list)
    _types: dict[str, Any] = field(default_factory=dict)
    _variables: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def execute(self, statements: str, *, inserts_last: bool = False) -> None:
        """One after the other. With `inserts_last` queries read what was inserted before them too."""
        self._types.update(self.engine.metastore.types)
        inserts: list[tree.Statement] = []
        for statement in each_statement(statements, self._types, self._variables):
            if inserts_last and isinstance(statement, tree.InsertValues):
                inserts.append(statement)
            else:
                self.run(statement)
        for statement in inserts:
            self.run(statement)

    def run(self, statement: tree.Statement) -> None:
        if isinstance(statement, tree.SetProperty):
            self.engine.settings[bare_name(statement.name)] = statement.value
            return
        if isinstance(statement, tree.Define):
            return
        if isinstance(statement, tree.InsertValues):
            self._insert(statement)
            return
        if isinstance(statement, tree.RunScript):
            try:
                script = Path(statement.path).read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise SqlError(f"The script {statement.path} cannot be read: {error}") from None
            self.execute(script)
            return
        if not isinstance(statement, DEFINING):
            raise SqlError(f"The test runner has no use for {type(statement).__name__} statements.")
        if isinstance(statement, tree.CreateFunction):
            check_function(statement)
        change = self.engine.apply(statement, self._number)
        if change.starts is not None and change.source is not None:
            check_written(change.source, self.engine.settings)
        self._number += 1
        stopped = {query_id: self._running.pop(query_id).driver for query_id in change.stops}
        if change.starts is not None:
            self._start(change.starts, stopped.pop(change.starts.id, None))
        for one in stopped.values():
            one.close()

    def _start(self, query: PersistentQuery, before: TopologyTestDriver | None) -> None:
        self.start(query.id, query.planned, before)

    def start(self, query_id: str, planned: Planned, before: TopologyTestDriver | None = None) -> None:
        """A query that replaces one goes on at its state."""
        graph = planned.topology.graph
        driver = TopologyTestDriver(planned.topology, partitions=self.partitions)
        if before is not None:
            driver.go_on(before)
        sinks = {sink.topic for _, sink in graph.sinks()}
        self._running[query_id] = Running(driver, set(graph.topics()), sinks)

    def select(self, text: str) -> list[tuple[Any, ...]]:
        """Starts a push query; `rows` gives what it shows."""
        from barnabas.pipelines.sql.language.statements import parse_statement

        statement = parse_statement(text, self.engine.metastore.types)
        assert isinstance(statement, tree.SelectStatement)
        planned = plan(self.engine.metastore, statement.query, name=f"transient_{self._number}")
        self._number += 1
        self.start("push", planned)
        return []

    def rows(self) -> list[tuple[Any, ...]]:
        import pickle

        found = [pickle.loads(one.value) for one in self._written if one.topic == ROWS_TOPIC and one.value]
        self._written = [one for one in self._written if one.topic != ROWS_TOPIC]
        return found

    def pipe(self, record: CaseRecord) -> None:
        source = self.source_of(record.topic)
        key, value = encoded(source, record)
        self.pipe_bytes(record.topic, key, value, record.timestamp_ms, record.headers)

    def pipe_bytes(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Iterable[Any] = ()
    ) -> None:
        waiting: deque[tuple[str, bytes | None, bytes | None, int, tuple[Any, ...]]] = deque()
        waiting.append((topic, key, value, timestamp_ms, tuple(headers)))
        while waiting:
            at, record_key, record_value, time, given = waiting.popleft()
            for one in self._running.values():
                if at not in one.topics:
                    continue
                partition = one.driver._partition_of(at, record_key)
                one.driver.pipe_bytes(
                    at, record_key, record_value, timestamp_ms=time, partition=partition, headers=given
                )
                for row in self._results(one):
                    self._written.append(Written(*row))
                    waiting.append(row)

    def _results(self, one: Running) -> list[tuple[str, bytes | None, bytes | None, int, tuple[Any, ...]]]:
        found: list[tuple[str, bytes | None, bytes | None, int, tuple[Any, ...]]] = []
        for topic in sorted(one.sinks):
            for row in one.driver._written_to(topic):
                headers = tuple((header["key"], header["value"]) for header in row.get("headers") or ())
                found.append((topic, row["key"], row["value"], milliseconds_of(row["timestamp"]), headers))
        return found

    def _insert(self, statement: tree.InsertValues) -> None:
        from barnabas.pipelines.sql.inserts import record_of

        source = self.engine.metastore.source(statement.target)
        key, value, time = record_of(source, statement, now_ms=0, functions=self.engine.metastore.functions)
        self._written.append(Written(source.topic, key, value, time, inserted=True))
        self.pipe_bytes(source.topic, key, value, time)

    def taken(self) -> list[Written]:
        """What INSERT and queries have written since the last time, in its order."""
        found = [one for one in self._written if one.topic != ROWS_TOPIC]
        self._written = [one for one in self._written if one.topic == ROWS_TOPIC]
        return found

    def output(self) -> list[CaseRecord]:
        """What queries have written since the last time, in its order."""
        return [decoded(self.source_of(one.topic), one) for one in self.taken() if not one.inserted]

    def source_of(self, topic: str) -> DataSource:
        found = [one for one in self.engine.metastore.sources.values() if one.topic == topic]
        if not found:
            raise SqlError(f"No stream or table is over topic {topic}.")
        return found[0]

    def close(self) -> None:
        for one in self._running.values():
            one.driver.close()


def codecs(source: DataSource) -> tuple[Codec, Codec]:
    return (
        codec_of(source.key_format, source.keys, key=True, topic=source.topic),
        codec_of(source.value_format, source.values, key=False, topic=source.topic),
    )


def encoded(source: DataSource, record: CaseRecord) -> tuple[bytes | None, bytes | None]:
    key_codec, value_codec = codecs(source)
    key = None if record.key is None else written(key_codec, source.key_format.name, record.key)
    if key is not None and record.window is not None:
        start, end = (one.to_bytes(8, "big", signed=True) for one in record.window)
        key += end + start if source.window and source.window.kind == "SESSION" else start
    value = None if record.value is None else written(value_codec, source.value_format.name, record.value)
    return key, value


def written(codec: Codec, name: str, value: Any) -> bytes | None:
    """JSON of a file in the bytes of a format."""
    if not codec.columns:
        return json.dumps(value).encode() if not isinstance(value, str) else value.encode()
    if name == "JSON":
        return json.dumps(value).encode()
    if name == "DELIMITED":
        return str(value).encode()
    if isinstance(value, dict) and (len(codec.columns) > 1 or getattr(codec, "wrap", False)):
        upper = {key.upper(): one for key, one in value.items()}
        given = [upper.get(column.upper()) for column, _ in codec.columns]
    else:
        given = [value]
    values = [None if one is None else coercion(kind)(one) for one, (_, kind) in zip(given, codec.columns, strict=True)]
    return codec.encode(values)


def decoded(source: DataSource, record: Written) -> CaseRecord:
    key, value = record.key, record.value
    key_codec, value_codec = codecs(source)
    window = None
    if key is not None and source.window is not None:
        width = 16 if source.window.kind == "SESSION" else 8
        bounds = [int.from_bytes(key[at : at + 8 or None], "big", signed=True) for at in range(-width, 0, 8)]
        key = key[:-width]
        window = (bounds[1], bounds[0]) if width == 16 else (bounds[0], bounds[0] + (source.window.size_ms or 0))
    return CaseRecord(
        record.topic,
        None if key is None else read(key_codec, source.key_format.name, key),
        None if value is None else read(value_codec, source.value_format.name, value),
        record.timestamp_ms,
        window,
        record.headers,
    )


def read(codec: Codec, name: str, data: bytes) -> Any:
    """Bytes of a format as JSON of a file."""
    if name == "JSON":
        return json.loads(data)
    if name == "DELIMITED" or not codec.columns:
        return data.decode()
    from barnabas.pipelines.sql.formats.json import plain_writer

    values = [
        None if one is None else plain_writer(kind)(thawed(one, kind))
        for one, (_, kind) in zip(codec.decode(data), codec.columns, strict=True)
    ]
    if name == "KAFKA" or not getattr(codec, "wrap", True):
        return values[0]
    return dict(zip([column for column, _ in codec.columns], values, strict=True))


__all__ = ["Bench", "CaseRecord", "Windowed"]
