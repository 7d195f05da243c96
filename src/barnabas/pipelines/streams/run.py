"""A topology started as a query of Structured Streaming.

One query reads all topics of the topology in one source, runs its stages and writes what they give to their topics in
one sink. Beside Spark's own files the checkpoint holds `barnabas/topology.json`, what the topology looked like, and
`barnabas/state`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.option_values import kafka_properties
from barnabas.pipelines.spark.patience import until_there
from barnabas.pipelines.spark.session import active_here
from barnabas.pipelines.streams.checkpoint import (
    TOPOLOGY,
    forget_uncommitted,
    has_begun,
    kept_tasks,
    read_note,
    remember,
    state_of,
)
from barnabas.pipelines.streams.checks import (
    EXACTLY_ONCE,
    SKIP,
    check_co_partitioning,
    check_ends,
    fingerprint,
)
from barnabas.pipelines.streams.describe import described
from barnabas.pipelines.streams.errors import TopicMissing, TopologyError
from barnabas.pipelines.streams.figures import Figures, forget_figures, read_figures
from barnabas.pipelines.streams.placement import write_placement
from barnabas.pipelines.streams.plan import Plan, planned
from barnabas.pipelines.streams.queries import StateStore, store_of, write_facts
from barnabas.pipelines.streams.sink import TopicSink, topic_sink
from barnabas.pipelines.streams.spark_ui import Shown, is_seen
from barnabas.pipelines.streams.start_arguments import EARLIEST, check_start, source_settings
from barnabas.pipelines.streams.state.remote import settings_of_session, storage_settings
from barnabas.pipelines.streams.state.storage import Directory, Storage, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from barnabas.pipelines.streams.graph import Graph
    from barnabas.pipelines.streams.topology import Topology

SINGLE_TOPIC_BATCH_RECORDS = 400_000  # several topics are merged by time, so the first batch takes all there is
# Between source and shuffle there is nothing to compile, and what the plan of every batch costs is seen in latency.
QUERY_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.lightweightPlanChangeValidation": "false"}
RUN_ON_MS = 1_000  # of a topology that does not say otherwise
_starting = threading.Lock()


class StreamsRun:
    """A running topology."""

    def __init__(
        self,
        topology: Topology,
        queries: list[StreamingQuery],
        checkpoint: Directory,
        sink: TopicSink | None = None,
        run_on_ms: int = 0,
    ) -> None:
        self.topology = topology
        self.queries = queries
        self.checkpoint = checkpoint
        self.run_on_ms = run_on_ms  # 0 if batches do not run on
        self._sink = sink
        self._shown: Shown | None = None

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def stop(self) -> None:
        for query in self.queries:
            query.stop()
        self._show_no_more()

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Until the query ends: False if that took longer. A query that fails raises here."""
        try:
            ended = [query.awaitTermination(None if timeout_s is None else int(timeout_s)) for query in self.queries]
        except Exception:
            if self._sink is not None and not self.is_active:
                self._sink.end_open()  # of tasks that were killed beside the one that failed
            self._show_no_more()
            raise
        if not self.is_active:
            self._show_no_more()
        return all(one is not False for one in ended)

    def show_in_ui(self, spark: SparkSession) -> None:
        """The operators and their figures in Spark's UI, until the queries end."""
        self._shown = Shown(spark, self.topology, self.figures, lambda: self.is_active)

    def _show_no_more(self) -> None:
        if self._shown is not None:
            self._shown.close()
            self._shown = None

    def figures(self) -> Figures | None:
        """Rows, late and failed records and time by operator, and state by partition; None before the first batch."""
        return read_figures(self.checkpoint)

    def describe(self) -> str:
        """The topology in words, with its figures."""
        return described(self.topology, self.figures())

    def store(self, name: str) -> StateStore:
        """A store by its name: what batches have committed."""
        return store_of(self.topology, name, self.checkpoint)


_running: WeakSet[StreamsRun] = WeakSet()


def start_run(
    topology: Topology,
    spark: SparkSession,
    *,
    bootstrap_servers: str | None,
    checkpoint: str | Path | None,
    trigger: Mapping[str, Any] | None,
    starting_offsets: str | Mapping[str, Mapping[int, int]],
    max_batch_records: int | None,
    run_on_ms: int | None,
    options: Mapping[str, Any],
) -> StreamsRun:
    from barnabas.pipelines.streams.compiled import compiled, tasks_of

    graph = topology.graph
    check_ends(graph, topology.name)
    settings = {key: str(value) for key, value in options.items()}
    if bootstrap_servers is not None:
        settings["kafka.bootstrap.servers"] = bootstrap_servers
    properties = kafka_properties({key.lower(): value for key, value in settings.items()}, {})
    settings["kafka.bootstrap.servers"] = properties["bootstrap.servers"]
    check_start(graph, settings, trigger, starting_offsets, max_batch_records)
    partitions, sinks = until_there(lambda: partition_counts(graph, properties))
    check_co_partitioning(graph, partitions)
    # Up to here nothing was asked of Spark: under `barnabas pipeline run` it is started by the first question.
    address = str(checkpoint_of(topology, spark) if checkpoint is None else checkpoint)
    storage = Storage(settings_of_session(spark, address) | storage_settings(settings))
    directory = storage.at(address)
    remember_topology(directory, graph, partitions)
    skips = topology.on_error == SKIP
    plan = planned(
        graph,
        partitions,
        sinks,
        state=state_of(directory).address,
        dead_letter=topology.dead_letter,
        skips=skips,
        state_cache_bytes=topology.state_cache_bytes,
        storage=storage,
    )
    write_facts(topology, directory)
    forget_uncommitted(directory)
    forget_figures(directory)
    settle()
    active_here(spark)
    offsets = starting(plan, starting_offsets, settings, spark, begun=has_begun(directory))
    exactly_once = topology.processing_guarantee == EXACTLY_ONCE
    sink = topic_sink(plan, settings, exactly_once=exactly_once)
    if run_on_ms is None:
        bounded = bool(trigger) or max_batch_records is not None
        run_on_ms = 0 if bounded else default_run_on_ms(topology, plan, spark, exactly_once=exactly_once)
    records = read(spark, topology, plan, sink, settings, offsets, max_batch_records, run_on_ms)
    tasks = kept_tasks(directory, min(plan.partitions, tasks_of(spark)))
    query = running(topology, compiled(records, plan, sink=sink, tasks=tasks), sink, directory, trigger)
    run = StreamsRun(topology, [query], directory, sink, run_on_ms)
    _running.add(run)
    if is_seen(spark):
        run.show_in_ui(spark)
    return run


def remember_topology(directory: Directory, graph: Graph, partitions: Mapping[str, int]) -> None:
    """How its state is placed is noted even where a topic has grown since, which is refused: it can be moved then."""
    before = read_note(directory, TOPOLOGY)
    now = fingerprint(graph, partitions)
    if now["partitions"] and (before is None or before["operators"] == now["operators"]):
        write_placement(graph, directory)
    remember(directory, now)


def default_run_on_ms(topology: Topology, plan: Plan, spark: SparkSession, *, exactly_once: bool) -> int:
    """Where it can be done, where no store may be asked for what topics show already, and a core of Spark's is left
    for other queries: a batch that runs on takes one."""
    if not (exactly_once and plan.can_run_on) or topology.graph.named_stores:
        return 0
    taken = sum(1 for run in list(_running) if run.run_on_ms and is_alive(run)) + 1
    return RUN_ON_MS if taken < spark.sparkContext.defaultParallelism else 0


def is_alive(run: StreamsRun) -> bool:
    """Also of one whose session has ended, or its JVM."""
    try:
        return run.is_active
    except Exception:
        return False


def starting(
    plan: Plan,
    given: str | Mapping[str, Mapping[int, int]],
    settings: dict[str, str],
    spark: SparkSession,
    *,
    begun: bool,
) -> str:
    from barnabas.pipelines.streams.global_tables import filled, first_offsets

    tables = plan.stages[0].global_tables
    if begun or (isinstance(given, str) and not tables):
        return given if isinstance(given, str) else EARLIEST
    offsets = first_offsets(plan, given)
    if tables:
        offsets |= filled(plan, settings, spark)
    return json.dumps({topic: {str(one): at for one, at in found.items()} for topic, found in offsets.items()})


def read(
    spark: SparkSession,
    topology: Topology,
    plan: Plan,
    sink: TopicSink | None,
    settings: dict[str, str],
    offsets: str,
    limit: int | None,
    run_on_ms: int,
) -> DataFrame:
    from pyspark.sql.types import StructType

    from barnabas.pipelines.streams.compiled import first_stage
    from barnabas.pipelines.streams.source import NAME, ROWS, RUN_ON, STAGE, TopologySource, packed

    function, schema = first_stage(plan, sink)
    spark.dataSource.register(TopologySource)
    reader = spark.readStream.format(NAME).options(**source_settings(settings))
    reader = reader.option(STAGE, packed(function)).option(ROWS, StructType.fromDDL(schema).json())
    reader = reader.option("subscribe", ",".join(plan.topics)).option("startingOffsets", offsets)
    reader = reader.option("kafka.group.id", topology.name).option(RUN_ON, run_on_ms)
    if topology.processing_guarantee == EXACTLY_ONCE:
        reader = reader.option("kafka.isolation.level", "read_committed")
    if len(plan.topics) > 1 and plan.stages[0].whole_batches:
        reader = reader.option("partitionsTogether", "true")
    if limit is None and len(plan.topics) == 1:
        limit = SINGLE_TOPIC_BATCH_RECORDS
    if limit is not None:
        reader = reader.option("maxOffsetsPerTrigger", limit)
    columns = ["key", "value", "partition", "offset", "timestamp", "headers"]
    return reader.option("columns", ",".join([*columns, "topic"] if len(plan.topics) > 1 else columns)).load()


def running(
    topology: Topology, rows: DataFrame, sink: TopicSink | None, directory: Directory, trigger: Mapping[str, Any] | None
) -> StreamingQuery:
    """For Spark it has no sink: the last stage writes."""
    writer = rows.writeStream.queryName(topology.name).format("noop")
    if trigger:
        writer = writer.trigger(**trigger)
    with settings_of_query(rows.sparkSession):
        query = writer.option("checkpointLocation", directory.address).start()
    if sink is not None:
        stop = query.stop

        def stop_and_end() -> None:
            was_active = query.isActive  # or another run may have taken over its transactions
            stop()
            if was_active:
                sink.end_open(runs_on=True)

        query.stop = stop_and_end  # type: ignore[method-assign]
    return query


@contextlib.contextmanager
def settings_of_query(spark: SparkSession) -> Iterator[None]:
    """A query takes over the session's settings when it starts. One starts at a time, or the second would take the
    settings of the first for the session's, and leave them there."""
    with _starting:
        before = {name: spark.conf.get(name, None) for name in QUERY_SETTINGS}
        for name, value in QUERY_SETTINGS.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, kept in before.items():
                if kept is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, kept)


def partition_counts(graph: Graph, properties: Mapping[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Of the topics that are read, and of those that are written to."""
    with Cluster(ClientSettings.from_properties(properties)) as cluster:
        tables = {one.topic for one in graph.global_tables}
        read = {topic: partition_count(cluster, topic, topic in tables) for topic in {*graph.topics(), *tables}}
        return read, {sink.topic: partition_count(cluster, sink.topic, None) for _, sink in graph.sinks()}


def partition_count(cluster: Cluster, topic: str, is_global: bool | None) -> int:
    """None for a topic that is written to: it may be created by the first record."""
    found = cluster.metadata([topic]).topics[topic]
    if found.error or not found.partitions:
        if is_global is None:
            return 0
        what = "the global table of topic" if is_global else "topic"
        raise TopicMissing(f"{what} {topic} can't be read: the topic does not exist")
    return len(found.partitions)


def checkpoint_of(topology: Topology, spark: SparkSession) -> str:
    """Where the session keeps those of its queries."""
    place = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    if not place:
        raise TopologyError(f"topology {topology.name} needs a checkpoint: say with checkpoint= where it is kept")
    return f"{place.rstrip('/')}/{topology.name}"
