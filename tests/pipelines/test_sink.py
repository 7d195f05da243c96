"""The sink under a real Spark: what rows become, what is refused, and what a query leaves that is killed at any point.

A killed query is a query whose sink raises at that point and undoes nothing: the brokers see what they would see if the
process were gone, and Spark's own log stays where it was. Processes that are really killed are in test_sink_killed.py,
and the protocol without Spark, on both kinds of cluster, in test_sink_turns.py. `make soak-spark` does this file on
Apache Kafka too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.data_source import BarnabasDataSource
from barnabas.pipelines.spark.sink.link import shared_link
from barnabas.pipelines.spark.sink.transactions import CommittedOffset, SinkTransaction, TransactionalProducer
from barnabas.pipelines.spark.sink.writers import BatchWriter, StreamWriter, batch_writer, stream_writer
from barnabas.testing import Node
from tests.support import reference

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
ROWS_PER_BATCH = 20
BATCHES = 3
LIMIT_S = 240.0  # the first batch of a session starts half a dozen Python processes
pytestmark = pytest.mark.timeout(600)
POINTS = ["after begin", "after flush", "before the first commit", "between two commits", "after the last commit"]


class Died(Exception):
    pass


class MortalProducer(TransactionalProducer):
    """Dies once at a point, or sleeps there; the dead abort nothing."""

    def __init__(self, cluster: Cluster, point: str, grave: str) -> None:
        super().__init__(cluster)
        self.point, self.grave = point, Path(grave)
        self.commits = 0

    def pass_by(self, point: str) -> None:
        kind, _, wanted = self.point.rpartition(":")
        if point != wanted or self.grave.exists():
            return
        self.grave.touch()
        if kind:
            time.sleep(float(kind))
            return
        raise Died(point)

    def begin(self, transactional_id: str, timeout_ms: int) -> SinkTransaction:
        begun = super().begin(transactional_id, timeout_ms)
        self.pass_by("after begin")
        return begun

    def leave_mark(self, transaction: SinkTransaction, topic: str, mark: CommittedOffset) -> None:
        super().leave_mark(transaction, topic, mark)
        self.pass_by("after flush")

    def end(self, transaction: SinkTransaction, *, commit: bool) -> None:
        if not commit:
            if not self.grave.exists():
                super().end(transaction, commit=False)
            return
        self.pass_by("before the first commit")
        super().end(transaction, commit=commit)
        self.pass_by("between two commits")
        self.commits += 1
        if self.commits == 2:
            self.pass_by("after the last commit")


class Mortal(BarnabasDataSource):
    @classmethod
    def name(cls) -> str:
        return "mortal"

    def _arm(self) -> dict[str, str]:
        options = {name: text for name, text in self.options.items() if name not in ("point", "grave")}
        properties = {name[6:]: text for name, text in options.items() if name.startswith("kafka.")}
        link = shared_link(properties)
        link.transactions = MortalProducer(link.cluster, self.options["point"], self.options["grave"])
        return options

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return MortalStreamWriter(self, stream_writer(self._arm(), schema, overwrite))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return MortalBatchWriter(self, batch_writer(self._arm(), schema, overwrite))


class MortalStreamWriter(StreamWriter):
    def __init__(self, source: Mortal, writer: StreamWriter) -> None:
        super().__init__(writer.options, writer.rules)
        self.source = source

    def write(self, iterator: Any) -> Any:
        self.source._arm()
        return super().write(iterator)


class MortalBatchWriter(BatchWriter):
    def __init__(self, source: Mortal, writer: BatchWriter) -> None:
        super().__init__(writer.options, writer.rules, writer.write_id)
        self.source = source

    def write(self, iterator: Any) -> Any:
        self.source._arm()
        return super().write(iterator)

    def commit(self, messages: Any) -> None:
        self.source._arm()
        super().commit(messages)

    def abort(self, messages: Any) -> None:
        self.source._arm()
        super().abort(messages)


@pytest.fixture(scope="module", autouse=True)
def mortal(spark: SparkSession) -> None:
    import pyspark.cloudpickle

    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(Mortal)
    spark.dataSource.register(Counting)


@pytest.fixture(scope="module", params=["barnabas", "apache"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "barnabas":
        with Node(PROPERTIES) as node:
            yield node.bootstrap_servers
        return
    if "BARNABAS_SPARK_KILLS" not in os.environ:
        pytest.skip("part of make soak-spark")
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties={"node.id": "1", **PROPERTIES}) as kafka:
        yield kafka.bootstrap_servers


class Stage:
    """Topics of a cluster, and what is committed in them."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers = servers
        self.cluster = Cluster(ClientSettings.from_properties({"bootstrap.servers": servers}))
        self.topic = self.create(name)
        self.checkpoint = tempfile.mkdtemp(prefix="barnabas-checkpoint-")

    def create(self, name: str, partitions: int = 3) -> str:
        from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        made = self.cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        assert made.topics[0].error_code in (0, 36), made
        return name

    def read(self, topic: str | None = None) -> list[Any]:
        from confluent_kafka import Consumer, TopicPartition

        topic = topic or self.topic
        ends = {(topic, number): -1 for number in self.cluster.topic(topic).partitions}
        deadline = time.monotonic() + 20
        while self.cluster.list_offsets(ends) != self.cluster.list_offsets(ends, isolation="read_committed"):
            assert time.monotonic() < deadline, "an open transaction hides the end of the topic"
            time.sleep(0.05)
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "g", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, number, 0) for _, number in ends])
        found, at_end = [], set()
        while len(at_end) < len(ends):
            message = consumer.poll(10)
            assert message is not None
            at_end.add(message.partition()) if message.error() else found.append(message)
        consumer.close()
        return found

    def values(self, topic: str | None = None) -> Counter[str]:
        return Counter(message.value().decode() for message in self.read(topic))

    def options(self, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers, "topic": self.topic, **more}


@pytest.fixture
def stage(servers: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    stage = Stage(servers, name[:200])
    yield stage
    stage.cluster.close()


class CountingReader(DataSourceStreamReader):
    """BATCHES batches of the same rows, dealt to the same tasks, every time."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    def initialOffset(self) -> dict[str, Any]:
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(ROWS_PER_BATCH)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"batch": min(start["batch"] + 1, BATCHES)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = start["batch"] * ROWS_PER_BATCH, end["batch"] * ROWS_PER_BATCH
        return [InputPartition(range(first + task, last, self.tasks)) for task in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((number,) for number in partition.value)


class Counting(DataSource):
    """Comes to an end, so that a query can be stopped while it does nothing."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "value bigint"

    def streamReader(self, schema: Any) -> CountingReader:
        return CountingReader(int(self.options["tasks"]))


def counting(spark: SparkSession, tasks: int = 2) -> DataFrame:
    rows = spark.readStream.format("counting").option("tasks", tasks).load()
    return rows.select(F.col("value").cast("string").alias("value"), F.col("value").cast("string").alias("key"))


def run_to_the_end(query: Any, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    try:
        while not query.lastProgress or query.lastProgress["batchId"] < BATCHES - 1:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, query.lastProgress
            time.sleep(0.02)
    finally:
        query.stop()


def run_to_death(query: Any, limit_s: float = LIMIT_S) -> str:
    with pytest.raises(Exception) as death:  # noqa: PT012
        query.awaitTermination(limit_s)
        query.stop()
        pytest.fail("the query lived on")
    return str(death.value)


EVERY_ROW_ONCE = Counter(str(number) for number in range(BATCHES * ROWS_PER_BATCH))


@pytest.mark.parametrize("servers", ["barnabas"], indirect=True)
class TestRows:
    def test_columns_become_what_they_are_called(self, spark: SparkSession, stage: Stage) -> None:
        rows = spark.createDataFrame(
            [
                ("a", b"1", 2, [("h", b"x"), ("h", None)]),
                ("b", None, None, None),
                (None, b"3", 0, []),
            ],
            "key string, value binary, partition int, headers array<struct<key:string,value:binary>>",
        )
        rows.write.format("barnabas").mode("append").options(**stage.options()).save()
        found = {message.value(): message for message in stage.read()}
        assert (found[b"1"].key(), found[b"1"].partition()) == (b"a", 2)
        assert found[b"1"].headers() == [("h", b"x"), ("h", None)]
        assert (found[None].key(), found[None].headers()) == (b"b", None)
        assert (found[b"3"].key(), found[b"3"].partition()) == (None, 0)

    def test_keys_lie_where_the_java_client_puts_them(self, spark: SparkSession, stage: Stage) -> None:
        from aiokafka.partitioner import murmur2

        rows = spark.range(500).select(F.col("id").cast("string").alias("key"), F.lit("v").alias("value"))
        rows.write.format("barnabas").mode("append").options(**stage.options()).save()
        found = stage.read()
        assert len(found) == 500
        assert all(message.partition() == (murmur2(message.key()) & 0x7FFFFFFF) % 3 for message in found)

    def test_rows_go_to_the_topics_they_name(self, spark: SparkSession, stage: Stage) -> None:
        others = [stage.create(f"{stage.topic}-{number}") for number in range(2)]
        rows = spark.createDataFrame(
            [(others[0], "a"), (others[1], "b"), (others[0], "c")], "topic string, value string"
        )
        options = {"kafka.bootstrap.servers": stage.servers, "kafka.compression.type": "zstd"}
        rows.write.format("barnabas").mode("append").options(**options).save()
        assert [stage.values(topic) for topic in others] == [Counter("ac"), Counter("b")]
        rows.write.format("barnabas").mode("append").options(**stage.options(exactlyOnce="true")).save()
        assert stage.values() == Counter("abc")

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"topic": "nowhere"}, "topic nowhere does not exist, and the cluster does not create it by itself"),
            ({"kafka.acks": "three"}, "kafka.acks is all, 1 or 0, not 'three'"),
            ({"kafka.fetch.min.bytes": "1"}, "kafka.fetch.min.bytes is not a setting of a producer"),
            ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1 cannot be reached: connection refused"),
        ],
    )
    def test_wrong_options_give_a_sentence(
        self, spark: SparkSession, stage: Stage, change: dict[str, str], sentence: str
    ) -> None:
        rows = spark.createDataFrame([("a",)], "value string")
        with pytest.raises(Exception, match=sentence):
            rows.write.format("barnabas").mode("append").options(**(stage.options() | change)).save()

    def test_overwriting_is_refused(self, spark: SparkSession, stage: Stage) -> None:
        rows = spark.createDataFrame([("a",)], "value string")
        with pytest.raises(Exception, match="save mode overwrite would replace what a topic holds"):
            rows.write.format("barnabas").mode("overwrite").options(**stage.options()).save()

    def test_a_partition_that_is_not_there_fails_the_write_and_leaves_nothing(
        self, spark: SparkSession, stage: Stage
    ) -> None:
        rows = spark.createDataFrame([("a", 0), ("b", 7)], "value string, partition int")
        with pytest.raises(Exception, match=r"a row asks for partition 7 of .*, which has 3"):
            rows.write.format("barnabas").mode("append").options(**stage.options(exactlyOnce="true")).save()
        assert stage.read() == []


class TestExactlyOnce:
    def start(self, spark: SparkSession, stage: Stage, point: str = "never", tasks: int = 2, **options: str) -> Any:
        grave = f"{stage.checkpoint}-grave"
        wanted = stage.options(
            exactlyOnce="true", point=point, grave=grave, checkpointLocation=stage.checkpoint, **options
        )
        return counting(spark, tasks).writeStream.format("mortal").options(**wanted).start()

    @pytest.mark.parametrize("point", POINTS)
    def test_a_query_that_dies_and_goes_on(self, spark: SparkSession, stage: Stage, point: str) -> None:
        assert point in run_to_death(self.start(spark, stage, point))
        run_to_the_end(self.start(spark, stage, point))
        assert stage.values() == EVERY_ROW_ONCE

    @pytest.mark.parametrize("servers", ["barnabas"], indirect=True)
    @pytest.mark.parametrize("tasks", [1, 3])
    def test_another_number_of_tasks_after_a_death(self, spark: SparkSession, stage: Stage, tasks: int) -> None:
        run_to_death(self.start(spark, stage, "after flush"))
        run_to_the_end(self.start(spark, stage, "after flush", tasks))
        assert stage.values() == EVERY_ROW_ONCE

    def test_a_task_that_stops_longer_than_its_transaction_lives(self, spark: SparkSession, stage: Stage) -> None:
        limit = {"kafka.transaction.timeout.ms": "1000"}
        said = run_to_death(self.start(spark, stage, "3:after flush", **limit))
        assert "longer than its transactions live (1000 ms)" in said
        run_to_the_end(self.start(spark, stage, "3:after flush"))
        assert stage.values() == EVERY_ROW_ONCE

    @pytest.mark.parametrize("point", ["between two commits", "after the last commit"])
    def test_two_sinks_of_one_query(self, spark: SparkSession, stage: Stage, point: str) -> None:
        other = stage.create(f"{stage.topic}-other")
        grave = f"{stage.checkpoint}-grave"
        first = stage.options(exactlyOnce="true", sinkName="first")
        second = stage.options(exactlyOnce="true", sinkName="second", point=point, grave=grave) | {"topic": other}

        def both(rows: DataFrame, batch: int) -> None:
            rows.write.format("barnabas").mode("append").options(**first).save()
            rows.write.format("mortal").mode("append").options(**second).save()

        writer = counting(spark).writeStream.foreachBatch(both).option("checkpointLocation", stage.checkpoint)
        assert point in run_to_death(writer.start())
        run_to_the_end(writer.start())
        for topic in (stage.topic, other):
            assert stage.values(topic) == EVERY_ROW_ONCE

    @pytest.mark.parametrize("servers", ["barnabas"], indirect=True)
    def test_sinks_inside_foreach_batch_need_names(self, spark: SparkSession, stage: Stage) -> None:
        def write(rows: DataFrame, batch: int) -> None:
            rows.write.format("barnabas").mode("append").options(**stage.options(exactlyOnce="true")).save()

        said = run_to_death(counting(spark).writeStream.foreachBatch(write).start())
        assert "exactlyOnce=true inside foreachBatch needs a sinkName" in said

    def test_rows_that_differ_in_a_replay_stop_the_query(self, spark: SparkSession, stage: Stage) -> None:
        run_to_death(self.start(spark, stage, "between two commits"))
        options = stage.options(exactlyOnce="true", checkpointLocation=stage.checkpoint)
        other = counting(spark).withColumn("value", F.concat(F.lit("other "), F.col("value")))
        said = run_to_death(other.writeStream.format("barnabas").options(**options).start())
        assert "is not deterministic" in said
        assert len(stage.values()) == ROWS_PER_BATCH // 2

    @pytest.mark.parametrize("servers", ["barnabas"], indirect=True)
    def test_a_plain_sink_writes_everything(self, spark: SparkSession, stage: Stage) -> None:
        options = stage.options(checkpointLocation=stage.checkpoint)
        run_to_the_end(counting(spark).writeStream.format("barnabas").options(**options).start())
        assert stage.values() == EVERY_ROW_ONCE
