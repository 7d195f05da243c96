"""`Topology`: what a pipeline file builds and starts.

    topology = Topology("word-count")
    words = topology.stream("lines", value=STRING).flat_map_values(str.split)
    words.group_by(lambda _, word: word).count().to("counts")
    spark = barnabas.spark.session("word-count")
    run = topology.start(spark, bootstrap_servers="localhost:9092", checkpoint="checkpoints/word-count")
    run.await_termination()

The seam with `barnabas pipeline run`: `start(spark, bootstrap_servers=..., checkpoint=...)` gives a `StreamsRun` with
`.queries`, `.stop()` and `.await_termination()`; `spark` is `barnabas.spark.session()` or spark-submit's session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from barnabas.pipelines.streams import arguments
from barnabas.pipelines.streams.checks import AT_LEAST_ONCE, cache_bytes, error_policy, guarantee
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.event_time import check_one_for_a_topic
from barnabas.pipelines.streams.expressions import Expression
from barnabas.pipelines.streams.graph import BATCH, GlobalNode, Graph, Node
from barnabas.pipelines.streams.operators.stateless import Source
from barnabas.pipelines.streams.operators.tables import TableSource
from barnabas.pipelines.streams.serdes import JSON, STRING, Serde
from barnabas.pipelines.streams.state.versions import CACHE_BYTES
from barnabas.pipelines.streams.streams import Stream
from barnabas.pipelines.streams.tables import GlobalTable, Table, tabled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipelines.streams.run import StreamsRun

K = TypeVar("K")
V = TypeVar("V")
Timestamp = Callable[..., int | datetime] | Expression


class Topology:
    """`name` is the application's: its group for lag tools. `emit` says what aggregates show: "batch" a key once a
    batch, "changes" a row for every record that changes it. `on_error` says what becomes of a record on which an
    operator fails: "stop" ends the query, "dead_letter" (which `dead_letter`, the name of a topic, implies) writes it
    there, "skip" logs it. `state_cache_bytes` is how much memory a worker has for state; more of it is on its disk."""

    def __init__(
        self,
        name: str = "streams",
        *,
        processing_guarantee: str = AT_LEAST_ONCE,
        dead_letter: str | None = None,
        on_error: str | None = None,
        emit: str = BATCH,
        state_cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.name = checked_name(name)
        self.processing_guarantee = guarantee(processing_guarantee)
        self.dead_letter = None if dead_letter is None else arguments.topic("Topology", dead_letter)
        self.state_cache_bytes = cache_bytes(state_cache_bytes)
        self.on_error = error_policy(on_error, self.dead_letter)
        self.graph = Graph(emit=arguments.emit("Topology", emit) or BATCH)

    @overload
    def stream(self, *topics: str, timestamp: Timestamp | None = ...) -> Stream[str, Any]: ...
    @overload
    def stream(self, *topics: str, value: Serde[V], timestamp: Timestamp | None = ...) -> Stream[str, V]: ...
    @overload
    def stream(self, *topics: str, key: Serde[K], timestamp: Timestamp | None = ...) -> Stream[K, Any]: ...
    @overload
    def stream(
        self, *topics: str, key: Serde[K], value: Serde[V], timestamp: Timestamp | None = ...
    ) -> Stream[K, V]: ...
    def stream(
        self,
        *topics: str,
        key: Serde[Any] = STRING,
        value: Serde[Any] = JSON,
        timestamp: Timestamp | None = None,
    ) -> Stream[Any, Any]:
        """`timestamp` takes the records' times from them: a function of the value, of key and value, with_context() of
        what else there is of the record, or a column. It gives milliseconds or a datetime."""
        if not topics:
            raise TopologyError("stream() needs the name of a topic")
        return Stream(self.graph, self._source("stream", topics, key, value, timestamp))

    @overload
    def table(self, topic: str, *, store: str | None = ..., timestamp: Timestamp | None = ...) -> Table[str, Any]: ...
    @overload
    def table(
        self, topic: str, *, value: Serde[V], store: str | None = ..., timestamp: Timestamp | None = ...
    ) -> Table[str, V]: ...
    @overload
    def table(
        self, topic: str, *, key: Serde[K], store: str | None = ..., timestamp: Timestamp | None = ...
    ) -> Table[K, Any]: ...
    @overload
    def table(
        self, topic: str, *, key: Serde[K], value: Serde[V], store: str | None = ..., timestamp: Timestamp | None = ...
    ) -> Table[K, V]: ...
    def table(
        self,
        topic: str,
        *,
        key: Serde[Any] = STRING,
        value: Serde[Any] = JSON,
        store: str | None = None,
        timestamp: Timestamp | None = None,
    ) -> Table[Any, Any]:
        """The last value of each key; with `store` it can be asked for from outside. `timestamp` is as of stream()."""
        arguments.store_name("table", store)
        source = self._source("table", (topic,), key, value, timestamp)
        return Table(self.graph, tabled(self.graph, source, TableSource, store))

    @overload
    def global_table(self, topic: str, *, store: str | None = ...) -> GlobalTable[str, Any]: ...
    @overload
    def global_table(self, topic: str, *, value: Serde[V], store: str | None = ...) -> GlobalTable[str, V]: ...
    @overload
    def global_table(self, topic: str, *, key: Serde[K], store: str | None = ...) -> GlobalTable[K, Any]: ...
    @overload
    def global_table(
        self, topic: str, *, key: Serde[K], value: Serde[V], store: str | None = ...
    ) -> GlobalTable[K, V]: ...
    def global_table(
        self,
        topic: str,
        *,
        key: Serde[Any] = STRING,
        value: Serde[Any] = JSON,
        store: str | None = None,
    ) -> GlobalTable[Any, Any]:
        """All of a topic in every partition. It is read whole before the first batch, and what is new in it afterwards
        is seen from the next batch on."""
        arguments.topic("global_table", topic)
        name = arguments.store_name("global_table", store) or f"global-{topic}"
        if name.isdigit():
            raise TopologyError(f"global_table() can't have a store named '{name}': it needs more than digits")
        self.graph.check_new_store(name)
        key_serde = arguments.serde("global_table", key, "key", topic)
        node = GlobalNode(topic, name, key_serde, arguments.serde("global_table", value, "value", topic))
        self.graph.global_tables.append(node)
        return GlobalTable(node)

    def describe(self) -> str:
        """The topology as text, like Kafka Streams' Topology#describe."""
        from barnabas.pipelines.streams.describe import described

        return described(self)

    def draw(self, path: str | Path | None = None) -> str:
        """The topology as SVG; written to `path` if one is given."""
        from barnabas.pipelines.streams.drawing import drawn

        picture = drawn(self)
        if path is not None:
            Path(path).write_text(picture)
        return picture

    def start(
        self,
        spark: SparkSession,
        *,
        bootstrap_servers: str | None = None,
        checkpoint: str | Path | None = None,
        trigger: Mapping[str, Any] | None = None,
        starting_offsets: str | Mapping[str, Mapping[int, int]] = "earliest",
        max_batch_records: int | None = None,
        run_on_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> StreamsRun:
        """Starts the query. `trigger` is Spark's, as {"availableNow": True} or {"processingTime": "1 second"};
        `starting_offsets` are earliest, latest or {topic: {partition: offset}}; `options` are `kafka.*` settings for
        reading and writing, such as those of security. A batch runs on for `run_on_ms` while there is input, without a
        plan of Spark's for every few records: results come sooner and cost less, and a core of Spark's is taken
        meanwhile. It is for topologies that read one topic exactly once and repartition nothing. Without a number it is
        a second where nothing speaks against it (docs/streams.md); 0 is never.
        `barnabas pipeline run` knows the brokers and a checkpoint where they are not given."""
        from barnabas.pipelines.streams.run import start_run

        return start_run(
            self,
            spark,
            bootstrap_servers=bootstrap_servers,
            checkpoint=checkpoint,
            trigger=trigger,
            starting_offsets=starting_offsets,
            max_batch_records=max_batch_records,
            run_on_ms=None if run_on_ms is None else arguments.milliseconds("start", run_on_ms),
            options=options or {},
        )

    def _source(
        self, called: str, topics: tuple[str, ...], key: Serde[Any], value: Serde[Any], timestamp: Timestamp | None
    ) -> Node:
        for topic in topics:
            arguments.topic(called, topic)
        if timestamp is not None:
            check_one_for_a_topic(self.graph, called, topics)
        facts = {
            "key_serde": arguments.serde(called, key, "key", *topics[:1]),
            "value_serde": arguments.serde(called, value, "value", *topics[:1]),
        }
        source = Source(tuple(topics), arguments.timestamp(called, timestamp))
        return self.graph.add(source, keyed=True, **facts)


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise TopologyError(f"Topology() needs a name, not {name!r}")
    if reason := arguments.unfit(name):
        raise TopologyError(f"a topology can't be named {name!r}: {reason}")
    return name
