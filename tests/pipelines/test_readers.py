"""The source as Spark drives it, without Spark: a test per option, on our node and on Apache Kafka."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.client.connection import Connection
from barnabas.client.errors import BrokerUnreachable
from barnabas.pipelines.spark.batch_reader import BatchReader
from barnabas.pipelines.spark.data_loss import LostRecords
from barnabas.pipelines.spark.offsets import IncompatibleCheckpoint
from barnabas.pipelines.spark.options import OptionError, SourceOptions
from barnabas.pipelines.spark.stream_reader import StreamReader
from barnabas.pipelines.spark.topics import UnknownTopic
from barnabas.testing import Node
from barnabas.wire.compression import Compression
from barnabas.wire.messages.fetch import FetchRequest
from tests.support import reference

PROPERTIES = {"auto.create.topics.enable": "false", "log.cleaner.backoff.ms": "50", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module", params=["barnabas", "apache"])
def plant(request: pytest.FixtureRequest, stage: Any) -> Iterator[Any]:
    kind = type(stage)
    if request.param == "barnabas":
        with Node(PROPERTIES) as node, kind(node.bootstrap_servers) as made:
            yield made
        return
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with (
        reference.ApacheKafka(properties={"node.id": "1", **PROPERTIES}) as kafka,
        kind(kafka.bootstrap_servers) as made,
    ):
        yield made


Rows = list[dict[str, Any]]


def read(plant: Any, **given: object) -> Rows:
    options = SourceOptions.parse(plant.options(given))
    reader = BatchReader(options, options.columns)
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def values(rows: Rows) -> list[str]:
    return sorted(row["value"].decode() for row in rows)


class Stream:
    """A streaming query: batches are planned, logged as JSON, read, and done. `restart` forgets all but the log."""

    def __init__(self, plant: Any, **given: object) -> None:
        self.options = SourceOptions.parse(plant.options({"idleWait": "0ms"} | given))
        self.log: list[str] = []
        self.restart()

    def restart(self) -> None:
        self.reader = StreamReader(self.options, self.options.columns)
        self.done = json.dumps(self.reader.initialOffset()) if not self.log else self.log[-1]

    def plan(self, limit: Any = None) -> bool:
        """Whether there is a batch to run; it is in the log then."""
        found = self.reader.latestOffset(json.loads(self.done), limit or self.reader.getDefaultReadLimit())
        if (planned := json.dumps(found)) == self.done:
            return False
        self.log.append(planned)
        return True

    def run(self) -> Rows:
        tasks = self.reader.partitions(json.loads(self.done), json.loads(self.log[-1]))
        rows = [row for task in tasks for batch in self.reader.read(task) for row in batch.to_pylist()]
        self.done = self.log[-1]
        return rows

    def batch(self, limit: Any = None) -> list[str]:
        return values(self.run()) if self.plan(limit) else []

    def lag(self) -> int:
        reported = self.reader.reportLatestOffset()
        assert reported is not None
        lag: int = reported["$lagTotal"]
        return lag


# Which topics


def test_topics_are_named_assigned_or_matched(plant: Any) -> None:
    one, two = plant.topic(2, "area.one"), plant.topic(1, "area.two")
    plant.write(one, ["a"], 0)
    plant.write(one, ["b"], 1)
    plant.write(two, ["c"])
    assert values(read(plant, subscribe="area.one, area.two")) == ["a", "b", "c"]
    assert values(read(plant, assign='{"area.one":[1],"area.two":[0]}')) == ["b", "c"]
    assert values(read(plant, subscribePattern=r"area\..*")) == ["a", "b", "c"]
    assert values(read(plant, subscribePattern="area")) == []
    assert values(read(plant, subscribePattern="__consumer.*|area.two")) == ["c"]


def test_a_topic_or_a_partition_that_is_not_there_is_named(plant: Any) -> None:
    topic = plant.topic(2)
    with pytest.raises(UnknownTopic, match=f"topics absent, missing do not exist on {plant.servers}"):
        read(plant, subscribe=f"missing,absent,{topic}")
    with pytest.raises(UnknownTopic, match=f"topic {topic}-7 does not exist"):
        read(plant, assign=json.dumps({topic: [0, 7]}))
    with pytest.raises(UnknownTopic, match="topic missing does not exist"):
        Stream(plant, subscribe="missing").plan()


def test_a_broker_that_nobody_reaches_is_named() -> None:
    options = SourceOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "plant"})
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1"):
        BatchReader(options, options.columns).partitions()


# Rows


def test_a_row_has_the_connectors_columns(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, ["hot", None], keys=["s1", None], headers=(("unit", b"C"), ("none", None)))
    plant.write(topic, ["cold"], timestamp_ms=plant.now_ms + 5)
    first, second, third = read(plant, subscribe=topic, includeHeaders="true")
    assert list(first) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert (first["key"], first["value"], first["topic"], first["partition"]) == (b"s1", b"hot", topic, 0)
    assert [row["offset"] for row in (first, second, third)] == [0, 1, 2]
    assert (second["key"], second["value"]) == (None, None)
    assert first["timestamp"].timestamp() == plant.now_ms / 1000
    assert third["timestamp"].timestamp() == (plant.now_ms + 5) / 1000
    assert first["timestampType"] == 0
    assert first["headers"] == [{"key": "unit", "value": b"C"}, {"key": "none", "value": None}]
    assert third["headers"] is None
    assert "headers" not in read(plant, subscribe=topic)[0]


def test_the_time_of_append_has_a_type_of_its_own(plant: Any) -> None:
    topic = plant.topic(message_timestamp_type="LogAppendTime")
    plant.write(topic, ["a"])
    (row,) = read(plant, subscribe=topic)
    assert row["timestampType"] == 1
    assert row["timestamp"].timestamp() > plant.now_ms / 1000 + 30


def test_only_the_columns_that_are_asked_for_are_there(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, ["a"])
    assert read(plant, subscribe=topic, columns="offset, VALUE") == [{"offset": 0, "value": b"a"}]


@pytest.mark.parametrize("codec", Compression)
def test_every_compression_is_read(plant: Any, codec: Compression) -> None:
    topic = plant.topic()
    written = [f"{codec.name} {number}" for number in range(1000)]
    plant.write(topic, written, compression=codec)
    plant.write(topic, ["plain"])
    assert values(read(plant, subscribe=topic)) == sorted([*written, "plain"])


def test_ranges_longer_than_a_fetch_are_read_in_several(plant: Any) -> None:
    topic = plant.topic()
    for number in range(30):
        plant.write(topic, [f"{number:03} {index:03} {'x' * 50}" for index in range(50)])
    plant.write(topic, ["last"])
    rows = read(plant, subscribe=topic, **{"kafka.max.partition.fetch.bytes": "3000"})
    assert [row["offset"] for row in rows] == list(range(1501))


def test_small_ranges_of_a_stream_come_in_one_answer_and_what_does_not_fit_into_it_is_asked_for(
    plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = plant.topic(3)
    asked: list[int] = []
    send = Connection.send

    def counted(connection: Connection, request: Any, *more: Any, **named: Any) -> int:
        if isinstance(request, FetchRequest):
            asked.append(len(request.topics[0].partitions))
        return send(connection, request, *more, **named)

    monkeypatch.setattr(Connection, "send", counted)
    stream = Stream(plant, subscribe=topic, startingOffsets="earliest", **{"kafka.max.partition.fetch.bytes": "2000"})
    for partition in range(3):
        plant.write(topic, [f"small {partition}"], partition)
    assert stream.batch() == ["small 0", "small 1", "small 2"]
    assert asked == [3]
    for number in range(10):
        plant.write(topic, [f"{number} {index} {'x' * 50}" for index in range(20)], 1)
    plant.write(topic, ["end"], 2)
    assert len(stream.batch()) == 201
    assert asked[1] == 2
    assert asked[2:].count(1) >= 5


# Where it begins and ends


def test_offsets_by_partition_name_where_a_batch_begins_and_ends(plant: Any) -> None:
    topic = plant.topic(2)
    plant.write(topic, list("abcde"), 0)
    plant.write(topic, list("vwxyz"), 1)
    found = read(
        plant,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 1, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 2}}),
    )
    assert values(found) == ["b", "c", "d", "e", "v", "w"]
    assert values(read(plant, subscribe=topic, startingOffsets="earliest", endingOffsets="latest")) == list(
        "abcdevwxyz"
    )
    with pytest.raises(
        OptionError, match=f"startingOffsets has to name every partition that is read; it lacks {topic}-1"
    ):
        read(plant, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1}}))
    with pytest.raises(OptionError, match="has other-0 in excess"):
        read(plant, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1, "1": 1}, "other": {"0": 1}}))


def test_offsets_that_are_not_there_are_told_or_moved(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, list("abcde"))
    plant.delete_records(topic, 2)
    beyond = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 9}})}
    with pytest.raises(
        LostRecords, match=f"startingOffsets names offset 9 of {topic}-0, but {topic}-0 has offsets 2 to 5"
    ):
        read(plant, **beyond)
    assert read(plant, failOnDataLoss="false", **beyond) == []
    before = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 1}})}
    assert values(read(plant, failOnDataLoss="false", **before)) == ["c", "d", "e"]
    with pytest.raises(LostRecords, match=f"offsets 5 to 8 of {topic}-0 are not there: it ends at offset 5"):
        read(plant, subscribe=topic, endingOffsets=json.dumps({topic: {"0": 9}}))


def test_timestamps_name_where_it_begins_and_ends(plant: Any) -> None:
    topic = plant.topic(2)
    plant.write(topic, list("abc"), 0, timestamp_ms=plant.now_ms)
    plant.write(topic, list("xyz"), 1, timestamp_ms=plant.now_ms + 10)
    assert values(read(plant, subscribe=topic, startingTimestamp=plant.now_ms + 1)) == ["b", "c", "x", "y", "z"]
    assert values(read(plant, subscribe=topic, endingTimestamp=plant.now_ms + 11)) == ["a", "b", "c", "x"]
    by_partition = json.dumps({topic: {"0": plant.now_ms + 2, "1": plant.now_ms + 11}})
    assert values(read(plant, subscribe=topic, startingOffsetsByTimestamp=by_partition)) == ["c", "y", "z"]
    assert values(read(plant, subscribe=topic, endingOffsetsByTimestamp=by_partition)) == ["a", "b", "x"]


def test_a_timestamp_behind_all_records_stops_the_query_or_means_the_end(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, list("abc"))
    late = {"subscribe": topic, "startingTimestamp": plant.now_ms + 100}
    with pytest.raises(
        OptionError, match=f"startingTimestamp: {topic}-0 has no record at or after {plant.now_ms + 100}"
    ):
        read(plant, **late)
    assert read(plant, startingOffsetsByTimestampStrategy="latest", **late) == []


# Tasks


def test_ranges_are_cut_into_tasks(plant: Any) -> None:
    topic = plant.topic(2)
    plant.write(topic, [str(number) for number in range(30)], 0)
    plant.write(topic, [str(number) for number in range(30, 40)], 1)

    def tasks(**given: object) -> int:
        options = SourceOptions.parse(plant.options({"subscribe": topic} | given))
        return len(BatchReader(options, options.columns).partitions())

    assert tasks() == 2
    assert tasks(minPartitions=8) == 8
    assert tasks(maxRecordsPerPartition=10) == 4
    cut = read(plant, subscribe=topic, minPartitions=8)
    assert sorted(int(row["value"]) for row in cut) == list(range(40))


# Transactions and gaps


def test_committed_records_are_read_and_control_records_never(plant: Any) -> None:
    topic = plant.topic()
    producer = Producer({"bootstrap.servers": plant.servers, "transactional.id": f"of-{topic}"})
    producer.init_transactions()
    for text, ends in (("a", producer.commit_transaction), ("b", producer.abort_transaction), ("c", None)):
        producer.begin_transaction()
        producer.produce(topic, text)
        producer.flush()
        if ends is not None:
            ends()
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert values(read(plant, **committed)) == ["a"]
    assert values(read(plant, subscribe=topic)) == ["a", "b", "c"]
    stream = Stream(plant, startingOffsets="earliest", **committed)
    assert stream.batch() == ["a"]
    producer.commit_transaction()
    plant.wait(lambda: stream.plan())
    assert values(stream.run()) == ["c"]
    assert json.loads(stream.done)[topic] == {"0": 6}


def test_a_compacted_topic_has_gaps(plant: Any) -> None:
    topic = plant.topic(
        cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", segment_ms="100", max_compaction_lag_ms="100"
    )
    for number in range(20):
        plant.write(
            topic,
            [f"{number} {index}" for index in range(10)],
            keys=[str(index) for index in range(10)],
            timestamp_ms=plant.now_ms + number * 1000,
        )
    later = itertools.count(plant.now_ms + 20_000, 1000)

    def gone() -> bool:
        plant.write(topic, ["last"], keys=["last"], timestamp_ms=next(later))
        return len(read(plant, subscribe=topic, columns="offset", endingOffsets=json.dumps({topic: {"0": 190}}))) == 0

    plant.wait(gone)
    stream = Stream(plant, subscribe=topic, startingOffsets="earliest")
    rows = stream.run() if stream.plan() else []
    latest = {row["key"]: row["value"] for row in rows}
    assert {key: value for key, value in latest.items() if key != b"last"} == {
        str(index).encode(): f"19 {index}".encode() for index in range(10)
    }


# Streams


def test_a_stream_begins_at_the_end_and_what_comes_before_its_first_batch_is_read_after_a_crash(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, ["old"])
    stream = Stream(plant, subscribe=topic)
    assert stream.plan()
    plant.write(topic, ["new"])
    pinned, stream.done = stream.log[-1], json.dumps({"$unpinned": True})
    stream.reader = StreamReader(stream.options, stream.options.columns)  # the driver died before the batch was done
    assert stream.run() == []
    assert stream.done == pinned
    assert stream.batch() == ["new"]


def test_a_batch_that_was_not_finished_is_read_again_the_same(plant: Any) -> None:
    topic = plant.topic(2)
    stream = Stream(plant, subscribe=topic, startingOffsets="earliest")
    plant.write(topic, ["a"], 0)
    assert stream.plan()
    plant.write(topic, ["b"], 1)
    stream.reader = StreamReader(stream.options, stream.options.columns)
    assert values(stream.run()) == ["a"]
    assert stream.batch() == ["b"]
    assert stream.batch() == []


def test_a_stream_begins_where_offsets_or_timestamps_say(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, list("abc"))
    assert Stream(plant, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 2}})).batch() == ["c"]
    assert Stream(plant, subscribe=topic, startingTimestamp=plant.now_ms + 1).batch() == ["b", "c"]


def test_new_partitions_and_topics_are_read_from_their_beginning(plant: Any) -> None:
    first = plant.topic(1, "growing.one")
    stream = Stream(plant, subscribePattern="growing.*")
    assert stream.batch() == []
    plant.add_partitions(first, 2)
    plant.write(first, ["a"], 1)
    second = plant.topic(1, "growing.two")
    plant.write(second, ["b"])
    assert stream.batch() == ["a", "b"]
    assert json.loads(stream.done)["$first"] == {first: {"1": 0}, second: {"0": 0}}
    stream.restart()
    assert stream.batch() == []
    plant.write(first, ["c"], 0)
    assert stream.batch() == ["c"]


def test_a_batch_takes_at_most_so_many_offsets_in_proportion(plant: Any) -> None:
    topic = plant.topic(2)
    plant.write(topic, [f"a{index}" for index in range(80)], 0)
    plant.write(topic, [f"b{index}" for index in range(20)], 1)
    stream = Stream(plant, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    stream.batch()
    assert json.loads(stream.done)[topic] == {"0": 8, "1": 2}
    assert stream.lag() == 90
    sizes = [len(rows) for rows in iter(stream.batch, [])]
    assert sum(sizes) == 90
    assert max(sizes) <= 10
    assert stream.lag() == 0
    again = Stream(plant, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    assert len(again.batch(ReadAllAvailable())) == 100


def test_a_batch_waits_for_so_many_offsets_but_not_for_ever(plant: Any) -> None:
    topic = plant.topic()
    patient = Stream(plant, subscribe=topic, minOffsetsPerTrigger=5)
    hasty = Stream(plant, subscribe=topic, minOffsetsPerTrigger=5, maxTriggerDelay="1ms")
    assert patient.batch() == hasty.batch() == []
    plant.write(topic, list("abc"))
    assert patient.batch() == []
    plant.wait(lambda: hasty.reader._last_batch_at < time.monotonic() - 0.001)  # all of the above may take less
    assert hasty.batch() == ["a", "b", "c"]
    plant.write(topic, list("de"))
    assert patient.batch() == ["a", "b", "c", "d", "e"]


def test_a_run_of_what_is_there_ends_although_more_comes(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, list("abcde"))
    stream = Stream(plant, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2)
    stream.reader.prepareForTriggerAvailableNow()
    plant.write(topic, list("xyz"))
    plant.add_partitions(topic, 2)
    assert list(iter(stream.batch, [])) == [["a", "b"], ["c", "d"], ["e"]]
    stream.restart()
    stream.reader.prepareForTriggerAvailableNow()
    assert list(iter(stream.batch, [])) == [["x", "y"], ["z"]]


def test_an_idle_stream_waits_at_the_broker_and_hears_of_a_record_at_once(plant: Any) -> None:
    topic = plant.topic(2)
    stream = Stream(plant, subscribe=topic, idleWait="30s")
    stream.batch()
    later = threading.Timer(0.3, plant.write, (topic, ["a"], 1))
    later.start()
    assert stream.batch() == ["a"]
    later.join()


def test_processed_offsets_are_committed_for_the_group(plant: Any) -> None:
    topic, group = plant.topic(), "lag-of-the-plant"
    stream = Stream(plant, subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": group})
    plant.write(topic, list("abc"))

    assert stream.plan()
    assert plant.committed(group) == {}
    stream.run()
    assert not stream.plan()
    assert plant.committed(group) == {(topic, 0): 3}


def test_a_stream_outlives_a_restart_of_the_broker(stage: Any) -> None:
    with Node() as node, type(stage)(node.bootstrap_servers) as plant:
        topic = plant.topic()
        stream = Stream(plant, subscribe=topic, startingOffsets="earliest", idleWait="50ms")
        plant.write(topic, ["a"])
        assert stream.batch() == ["a"]
        node.kill()
        node.start()
        plant.write(topic, ["b"])
        assert stream.batch() == ["b"]
        assert stream.plan() is False
        restart = threading.Thread(target=node.restart)
        restart.start()
        while restart.is_alive():
            assert stream.batch() == []
        plant.write(topic, ["c"])
        plant.wait(stream.plan)
        assert values(stream.run()) == ["c"]


# What is gone


def test_records_that_are_gone_stop_the_query_or_are_left_out(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, list("abcde"))
    slowly = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 1}
    strict, lenient = Stream(plant, **slowly), Stream(plant, failOnDataLoss="false", **slowly)
    for stream in (strict, lenient):
        assert stream.batch() == ["a"]
        assert stream.plan(ReadAllAvailable())
    plant.delete_records(topic, 3)
    with pytest.raises(LostRecords, match=f"offsets 1 to 2 of {topic}-0 are gone: it now begins at offset 3"):
        strict.run()
    assert values(lenient.run()) == ["d", "e"]


def test_a_topic_that_was_deleted_stops_the_query_or_is_left_out(plant: Any) -> None:
    topic, other = plant.topic(), plant.topic()
    plant.write(topic, ["a"])
    strict = Stream(plant, subscribe=f"{topic},{other}", startingOffsets="earliest")
    lenient = Stream(plant, subscribe=f"{topic},{other}", startingOffsets="earliest", failOnDataLoss="false")
    assert strict.batch() == lenient.batch() == ["a"]
    plant.delete(topic)
    plant.write(other, ["b"])
    with pytest.raises(LostRecords, match=f"{topic}-0 is gone, as the topic was deleted"):
        strict.plan()
    assert lenient.batch() == ["b"]


def test_a_topic_that_was_created_again_stops_the_query_or_is_read_anew(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, list("abc"))
    strict = Stream(plant, subscribe=topic, startingOffsets="earliest")
    lenient = Stream(plant, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    strict.batch()
    lenient.batch()
    plant.delete(topic)
    plant.topic(name=topic)
    plant.write(topic, list("vwxyz"))
    with pytest.raises(LostRecords, match=f"topic {topic} was deleted and created again"):
        strict.plan()
    strict.restart()
    with pytest.raises(LostRecords, match=f"topic {topic} was deleted and created again"):
        strict.plan()
    assert lenient.batch() == list("vwxyz")


def test_a_checkpoint_of_another_kind_of_query_is_refused_and_the_connectors_goes_on(plant: Any) -> None:
    topic = plant.topic()
    plant.write(topic, list("abc"))
    stream = Stream(plant, subscribe=topic)
    stream.done = '{"logOffset":4}'
    with pytest.raises(IncompatibleCheckpoint, match="belongs to another query, choose another checkpointLocation"):
        stream.plan()
    stream.done = json.dumps({topic: {"0": 1}})
    assert stream.batch() == ["b", "c"]
