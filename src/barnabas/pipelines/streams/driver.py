"""`TopologyTestDriver`: a topology without a cluster. Records go in, a batch runs, records come out.

    with TopologyTestDriver(topology, spark) as driver:
        driver.pipe_input("lines", "a", "hello hello", timestamp_ms=0)
        assert driver.read_output("counts") == [("hello", 2)]

What is piped in waits until something is read; all of it is one batch then, cut into stages and run by Spark's workers
as in a query, with state in files. Without a session the same stages run over the same Arrow batches in this process,
within milliseconds. `restart()` forgets everything but the files.
"""

from __future__ import annotations

import functools
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from barnabas.pipelines.streams import arguments
from barnabas.pipelines.streams.checks import SKIP, check_co_partitioning, check_ends, fingerprint
from barnabas.pipelines.streams.compiled import Piped, run_batch, run_batch_here
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.plan import Plan, planned
from barnabas.pipelines.streams.serdes import AUTO, Serde, SerdeError, read_json
from barnabas.pipelines.streams.state.storage import LocalDirectory, Storage
from barnabas.pipelines.streams.topology import Topology
from barnabas.pipelines.streams.windows import Duration, milliseconds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from barnabas.pipelines.streams.figures import Figures
    from barnabas.pipelines.streams.queries import StateStore

ROUNDS_MAX = 1000  # of records that come back


class Output(NamedTuple):
    """A record that a topology wrote."""

    key: Any
    value: Any


class TopologyTestDriver:
    """`partitions` is of all topics, or by topic; `wall_clock_ms` is what punctuators by wall clock go by at first."""

    def __init__(
        self,
        topology: Topology,
        spark: SparkSession | None = None,
        *,
        partitions: int | Mapping[str, int] = 1,
        wall_clock_ms: int = 0,
    ) -> None:
        self._topology, self._spark = arguments.one_of("TopologyTestDriver", topology, Topology, "a topology"), spark
        check_ends(topology.graph, topology.name)
        given = partitions
        tables = {one.topic for one in topology.graph.global_tables}
        self._partitions = {
            topic: given if isinstance(given, int) else given.get(topic, 1)
            for topic in {*topology.graph.topics(), *tables}
        }
        for topic, count in self._partitions.items():
            if count < 1:
                raise TopologyError(f"topic {topic} has at least one partition, not {count}")
        check_co_partitioning(topology.graph, self._partitions)
        self._directory = tempfile.TemporaryDirectory(prefix="barnabas-topology-")
        self._waiting: list[Piped] = []
        self._offsets: dict[tuple[str, int], int] = {}
        self._written: dict[str, list[dict[str, Any]]] = {}
        self._batch = 0
        self._wall_clock_ms = wall_clock_ms
        self._run = uuid.uuid4().hex

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        *,
        timestamp_ms: int = 0,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """Keys and values as the topology reads them; without a partition the key decides."""
        key_serde, value_serde = self._serdes(topic)
        data = key_serde.to_bytes(key)
        if partition is None:
            partition = self._partition_of(topic, data)
        written = value_serde.to_bytes(value)
        self.pipe_bytes(topic, data, written, timestamp_ms=timestamp_ms, partition=partition, headers=headers)

    def pipe_bytes(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int = 0,
        partition: int = 0,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        self._serdes(topic)
        if not 0 <= partition < self._partitions[topic]:
            raise TopologyError(
                f"topic {topic} has no partition {partition}: partitions= gives it {self._partitions[topic]}"
            )
        offset = self._offsets.get((topic, partition), 0)
        self._offsets[topic, partition] = offset + 1
        self._waiting.append(Piped(topic, partition, offset, timestamp_ms, key, value, tuple(headers)))

    def read_output(
        self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> list[Output]:
        """What was written since the last time, read by the serdes given here, or by those of `to`. What functions made
        and `to` wrote without a serde is read as `stream` reads: keys are text, values JSON; or text, if they are none.
        """
        return [Output(one, other) for one, other, _ in self.read_timed_output(topic, key=key, value=value)]

    def read_timed_output(
        self, topic: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> list[tuple[Any, Any, int]]:
        """The same with the times of the records, in milliseconds."""
        rows = self._written_to(topic)
        node = next((node for node, sink in self._topology.graph.sinks() if sink.topic == topic), None)
        keys = key or (AUTO if node is None else node.key_serde)
        values = value or (AUTO if node is None else node.value_serde)
        values = JSON_OR_TEXT if values is AUTO and value is None else values
        return [
            (keys.from_bytes(row["key"]), values.from_bytes(row["value"]), milliseconds_of(row["timestamp"]))
            for row in rows
        ]

    def read_records(self, topic: str) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
        """Key, value and headers in bytes."""
        return [
            (row["key"], row["value"], {header["key"]: header["value"] for header in row.get("headers") or ()})
            for row in self._written_to(topic)
        ]

    def _written_to(self, topic: str) -> list[dict[str, Any]]:
        known = [*dict.fromkeys(sink.topic for _, sink in self._topology.graph.sinks())]
        known += [self._topology.dead_letter] if self._topology.dead_letter is not None else []
        if topic not in known:
            told = ", ".join(known) or "it writes to none"
            raise TopologyError(f"topology {self._topology.name} does not write to topic {topic}: {told}")
        return self._flushed().pop(topic, [])

    def store(self, name: str) -> StateStore:
        from barnabas.pipelines.streams.queries import store_of

        self._flushed()
        return store_of(self._topology, name, LocalDirectory(Path(self._directory.name)))

    def figures(self) -> Figures:
        """What operators have done since the last restart: rows, late and failed records, state."""
        from barnabas.pipelines.streams.figures import sums_here

        self._flushed()
        return sums_here(self._plan, self._run).figures

    def restart(self) -> None:
        """What is left are the files."""
        self._flushed()
        self._run = uuid.uuid4().hex

    def rescale(self, partitions: int | Mapping[str, int]) -> None:
        """All topics, or those that are named, have so many partitions from now on, and state is moved as by
        `barnabas pipeline rescale`."""
        from barnabas.pipelines.streams.checkpoint import remember
        from barnabas.pipelines.streams.moving import move_state
        from barnabas.pipelines.streams.placement import write_placement

        self.restart()
        directory = LocalDirectory(Path(self._directory.name), synced=False)
        graph = self._topology.graph
        remember(directory, fingerprint(graph, self._partitions))
        write_placement(graph, directory)
        cache = self._topology.state_cache_bytes
        self._partitions = dict(move_state(directory, partitions, version=self._batch, cache_bytes=cache).after)
        del self._plan

    def go_on(self, before: TopologyTestDriver) -> None:
        """At the state of another driver, whose topology this one replaces; that one is over."""
        before._flushed()
        self._directory.cleanup()
        self._directory, self._batch, self._offsets = before._directory, before._batch, before._offsets

    def replay(self) -> None:
        """The next batch has the number of the last one, as after a crash before it was committed."""
        self._batch -= 1
        self._run = uuid.uuid4().hex

    def advance_wall_clock(self, duration: Duration) -> None:
        """For punctuators by wall clock, which run at the end of the next batch."""
        self._flushed()
        self._wall_clock_ms += milliseconds(duration, "the time to advance by")

    def close(self) -> None:
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serdes(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        for node, source in self._topology.graph.sources():
            if topic in source.topics:
                return node.key_serde, node.value_serde
        for table in self._topology.graph.global_tables:
            if table.topic == topic:
                return table.key_serde, table.value_serde
        known = ", ".join(sorted(self._partitions))
        raise TopologyError(f"topology {self._topology.name} does not read topic {topic}: {known}")

    def _partition_of(self, topic: str, key: bytes | None) -> int:
        from barnabas.client.partitioning import murmur2

        return 0 if key is None else (murmur2(key) & 0x7FFFFFFF) % self._partitions[topic]

    def _flushed(self) -> dict[str, list[dict[str, Any]]]:
        """Everything that waits, and what comes of it in topics that the topology reads itself."""
        tables = {one.topic for one in self._topology.graph.global_tables}
        for _ in range(ROUNDS_MAX):
            if not self._waiting:
                return self._written
            first = [row for row in self._waiting if row.topic in tables]
            rest = [row for row in self._waiting if row.topic not in tables]
            self._waiting = []
            for rows in (first, rest):  # what was piped into a global table is there for what comes after
                if rows:
                    self._process(rows)
        raise TopologyError(f"topology {self._topology.name} writes to what it reads, and came to no end")

    def _process(self, rows: list[Piped]) -> None:
        found = self._ran(self._plan, rows)
        self._batch += 1
        for row in found.to_pylist():
            topic, key = row["topic"], row["key"]
            self._written.setdefault(topic, []).append(row)
            if topic in self._partitions:
                time = milliseconds_of(row["timestamp"])
                partition = self._partition_of(topic, key)
                headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
                self.pipe_bytes(topic, key, row["value"], timestamp_ms=time, partition=partition, headers=headers)

    def _ran(self, plan: Plan, rows: list[Piped]) -> pa.Table:
        if self._spark is None:
            return run_batch_here(plan, rows, self._batch, self._run, self._wall_clock_ms)
        return run_batch(self._spark, plan, rows, self._batch, self._run, self._wall_clock_ms)

    @functools.cached_property
    def _plan(self) -> Plan:
        from barnabas.pipelines.streams.checkpoint import state_of

        state = state_of(LocalDirectory(Path(self._directory.name))).address
        graph = self._topology.graph
        dead, skips = self._topology.dead_letter, self._topology.on_error == SKIP
        return planned(
            graph,
            self._partitions,
            {},
            state=state,
            dead_letter=dead,
            skips=skips,
            state_cache_bytes=self._topology.state_cache_bytes,
            storage=Storage(synced=False),  # it goes with the driver
        )


def json_or_text(data: bytes) -> Any:
    try:
        return read_json(data)
    except SerdeError:
        return AUTO.decode(data)


JSON_OR_TEXT: Serde[Any] = Serde("json or text", AUTO.encode, json_or_text)


def milliseconds_of(time: datetime | None) -> int:
    if time is None:
        return -1
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)
