"""Records in and out of a real node over sockets: waiting, sessions, limits, and what outlives a kill."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.connection import Connection
from barnabas.client.errors import ConnectionLost
from barnabas.testing import Node
from barnabas.wire.batch import decode_records, iterate_batches
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.reference_batches import crafted_batch

NAMES = (f"records-{number}" for number in itertools.count())
ONE = crafted_batch([(b"k", b"v")])
LONG_MS = 15_000
AT_ONCE_S = 5.0
LATEST, EARLIEST = -1, -2


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def connection(node: Node) -> Iterator[Connection]:
    with node.connect() as connection:
        yield connection


def new_topic(connection: Connection, partitions: int = 1, **configs: str) -> str:
    name = next(NAMES)
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given)
    answer = connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=15_000))
    assert answer.topics[0].error_code == 0, answer
    return name


def produce_request(topic: str, records: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(acks=acks, timeout_ms=15_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def produce(connection: Connection, topic: str, records: bytes = ONE, **where: int) -> Any:
    answer = connection.request(produce_request(topic, records, **where), 12)
    return answer.responses[0].partition_responses[0]


def part(offset: int = 0, partition: int = 0, max_bytes: int = 1 << 20, **rest: int) -> FetchPartition:
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **rest)


def fetch_request(topic: str, *parts: FetchPartition, **rest: Any) -> FetchRequest:
    settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, **rest}
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=list(parts))] if parts else [], **settings)


def fetch(connection: Connection, topic: str, *parts: FetchPartition, **rest: Any) -> Any:
    return connection.request(fetch_request(topic, *(parts or [part()]), **rest), 12)


def only(answer: Any) -> Any:
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition


def offsets_in(records: Any) -> list[int]:
    return [header.base_offset for _, header in iterate_batches(memoryview(records))]


def listed(connection: Connection, topic: str, timestamp: int) -> int:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])
    return int(connection.request(request, 8).topics[0].partitions[0].offset)


class Waiting:
    """A request in a thread of its own, and when its answer came."""

    def __init__(self, node: Node, request: Any, version: int) -> None:
        self._connection = node.connect()
        self._thread = threading.Thread(target=self._run, args=(request, version))
        self.answer: Any = None
        self.seconds = 0.0
        self._thread.start()

    def _run(self, request: Any, version: int) -> None:
        began = time.monotonic()
        self.answer = self._connection.request(request, version)
        self.seconds = time.monotonic() - began

    @property
    def is_answered(self) -> bool:
        return self.answer is not None

    def result(self) -> Any:
        self._thread.join(20)
        self._connection.close()
        assert self.answer is not None, "no answer came"
        return self.answer


# Waiting


def test_a_fetch_that_waits_is_answered_by_the_append(node: Node, connection: Connection) -> None:
    topic = new_topic(connection)
    waiting = Waiting(node, fetch_request(topic, part(), max_wait_ms=LONG_MS), 12)
    produce(connection, topic)
    assert offsets_in(only(waiting.result()).records) == [0]
    assert waiting.seconds < AT_ONCE_S


def test_it_waits_on_until_its_least_bytes_are_there(node: Node, connection: Connection) -> None:
    topic = new_topic(connection, partitions=2)
    request = fetch_request(topic, part(), part(partition=1), max_wait_ms=LONG_MS, min_bytes=3 * len(ONE))
    waiting = Waiting(node, request, 12)
    produce(connection, topic)
    produce(connection, topic, partition=1)
    fetch(connection, topic)
    assert not waiting.is_answered
    produce(connection, topic)
    found = {each.partition_index: offsets_in(each.records) for each in waiting.result().responses[0].partitions}
    assert found == {0: [0, 1], 1: [0]}
    assert waiting.seconds < AT_ONCE_S


def test_time_answers_who_waits_in_vain(connection: Connection) -> None:
    topic = new_topic(connection)
    began = time.monotonic()
    found = only(fetch(connection, topic, max_wait_ms=200))
    assert (found.error_code, found.high_watermark, bytes(found.records)) == (0, 0, b"")
    assert time.monotonic() - began >= 0.19


def test_a_deleted_topic_wakes_who_waits_for_it(node: Node, connection: Connection) -> None:
    topic = new_topic(connection)
    waiting = Waiting(node, fetch_request(topic, part(), max_wait_ms=LONG_MS), 12)
    fetch(connection, topic)
    connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=15_000), 6)
    assert only(waiting.result()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert waiting.seconds < AT_ONCE_S


def test_a_client_that_goes_away_leaves_nobody_waiting() -> None:
    async def until(condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < limit, "it never happened"
            await asyncio.sleep(0.005)

    async def story() -> None:
        async with Node() as node:
            embedded = node._embedded
            assert embedded is not None
            connection = await asyncio.to_thread(node.connect)
            topic = await asyncio.to_thread(new_topic, connection, 3)
            watched = [each for index in range(3) if (each := embedded.broker.partitions.get(topic, index)) is not None]
            parts = [part(partition=index) for index in range(3)]
            connection.send(fetch_request(topic, *parts, max_wait_ms=LONG_MS), 12)
            await until(lambda: all(each.watchers for each in watched))
            connection.close()
            await until(lambda: not any(each.watchers for each in watched))

            connection = await asyncio.to_thread(node.connect)
            first = fetch_request(topic, *parts, session_epoch=0)
            session_id = (await asyncio.to_thread(connection.request, first, 12)).session_id
            connection.send(fetch_request(topic, session_id=session_id, session_epoch=1, max_wait_ms=LONG_MS), 12)
            session = embedded.broker.fetch_sessions.open(session_id, 1, False)
            await until(lambda: bool(session.waiting))
            connection.close()
            await until(lambda: not session.waiting)
            assert all(each.watchers for each in watched), "the session goes on without its connection"
            embedded.broker.fetch_sessions.close(session_id)
            assert not any(each.watchers for each in watched)

    asyncio.run(story())


# Sessions


def test_one_busy_partition_among_a_thousand_idle_ones(node: Node, connection: Connection) -> None:
    topic = new_topic(connection, partitions=1000)
    parts = [part(partition=index) for index in range(1000)]
    opened = fetch(connection, topic, *parts, session_epoch=0)
    assert len(opened.responses[0].partitions) == 1000
    session = {"session_id": opened.session_id, "max_wait_ms": LONG_MS}
    waiting = Waiting(node, fetch_request(topic, session_epoch=1, **session), 12)
    produce(connection, topic, partition=700)
    found = only(waiting.result())
    assert (found.partition_index, offsets_in(found.records)) == (700, [0])
    assert waiting.seconds < AT_ONCE_S
    waiting = Waiting(node, fetch_request(topic, part(1, partition=700), session_epoch=2, **session), 12)
    produce(connection, topic, partition=3)
    assert only(waiting.result()).partition_index == 3


def test_partitions_of_a_session_take_turns_when_an_answer_is_full(connection: Connection) -> None:
    topic = new_topic(connection, partitions=3)
    for _, partition in itertools.product(range(2), range(3)):
        produce(connection, topic, partition=partition)
    session = fetch(connection, topic, *[part(partition=index) for index in range(3)], session_epoch=0, max_bytes=1)
    turns = [[each.partition_index for each in session.responses[0].partitions if len(each.records)]]
    for epoch in range(1, 5):
        answer = fetch_request(topic, session_id=session.session_id, session_epoch=epoch, max_bytes=1)
        found = connection.request(answer, 12)
        turns.append([each.partition_index for each in found.responses[0].partitions if len(each.records)])
    assert turns == [[0], [0], [1], [2], [0]]


def test_a_topic_made_anew_is_told_to_a_session_by_name(connection: Connection) -> None:
    topic = new_topic(connection)
    produce(connection, topic)
    opened = fetch(connection, topic, part(1), session_epoch=0)
    connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=15_000), 6)
    ask = itertools.count(1)

    def again(*forgotten: ForgottenTopic) -> Any:
        request = fetch_request(topic, session_id=opened.session_id, session_epoch=next(ask))
        request.forgotten_topics_data = list(forgotten)
        return connection.request(request, 12)

    assert only(again()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    made = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    connection.request(CreateTopicsRequest(topics=[made], timeout_ms=15_000))
    assert only(again()).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert again(ForgottenTopic(topic=topic, partitions=[0])).session_id == 0


# Records


def test_acks_0_is_not_answered_and_an_error_closes_the_connection(node: Node, connection: Connection) -> None:
    topic = new_topic(connection)
    with node.connect() as silent:
        silent.send(produce_request(topic, ONE, acks=0), 12, answered=False)
        assert offsets_in(only(fetch(silent, topic)).records) == [0]
        silent.send(produce_request("not-there", ONE, acks=0), 12, answered=False)
        with pytest.raises(ConnectionLost):
            fetch(silent, topic)


def test_a_fetch_reads_on_over_segments(connection: Connection) -> None:
    topic = new_topic(connection, segment_bytes="1000")
    batch = crafted_batch([(None, b"x" * 100)])
    for _ in range(50):
        produce(connection, topic, batch)
    offset, rounds = 0, 0
    while offset < 50:
        found = offsets_in(only(fetch(connection, topic, part(offset))).records)
        assert found == list(range(offset, found[-1] + 1))
        offset, rounds = found[-1] + 1, rounds + 1
    assert 6 <= rounds <= 20


def test_what_flush_messages_promises_is_on_the_disk_when_it_is_answered() -> None:
    async def story() -> None:
        async with Node() as node:
            assert node._embedded is not None
            connection = await asyncio.to_thread(node.connect)
            topic = await asyncio.to_thread(lambda: new_topic(connection, flush_messages="2"))
            partition = node._embedded.broker.partitions.get(topic, 0)
            assert partition is not None
            await asyncio.to_thread(produce, connection, topic)
            assert partition.log.recovery_point == 0
            await asyncio.to_thread(produce, connection, topic)
            assert partition.log.recovery_point == 2
            connection.close()

    asyncio.run(story())


def test_deleted_records_are_gone_also_after_a_restart(own_node: Node) -> None:
    with own_node.connect() as connection:
        topic = new_topic(connection)
        for _ in range(10):
            produce(connection, topic)
        partitions = [DeleteRecordsPartition(partition_index=0, offset=4)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)])
        assert connection.request(request, 2).topics[0].partitions[0].low_watermark == 4
        assert only(fetch(connection, topic, part(3))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert produce(connection, topic).log_start_offset == 4
    own_node.restart()
    with own_node.connect() as connection:
        assert (listed(connection, topic, EARLIEST), listed(connection, topic, LATEST)) == (4, 11)
        assert only(fetch(connection, topic, part(3))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_idempotent_producer_goes_on_after_a_restart(own_node: Node, how: str) -> None:
    # A producer is remembered for a day from the time of its last batch on.
    now_ms = int(time.time() * 1000)

    def batch(sequence: int) -> bytes:
        return crafted_batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, base_timestamp=now_ms)

    with own_node.connect() as connection:
        topic = new_topic(connection)
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        producer_id = connection.request(asked, 4).producer_id
        for sequence in range(7):
            assert produce(connection, topic, batch(sequence)).base_offset == sequence
    getattr(own_node, how)()
    own_node.start()
    with own_node.connect() as connection:
        assert produce(connection, topic, batch(6)).base_offset == 6
        assert produce(connection, topic, batch(9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(connection, topic, batch(7)).base_offset == 7
        assert listed(connection, topic, LATEST) == 8
        assert connection.request(asked, 4).producer_id > producer_id


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_after_a_restart_who_knows_an_older_leader_epoch_is_told_the_new_one(own_node: Node, how: str) -> None:
    with own_node.connect() as connection:
        topic = new_topic(connection)
        produce(connection, topic)
    getattr(own_node, how)()
    own_node.start()
    with own_node.connect() as connection:
        produce(connection, topic)
        latest = fetch_request(topic, part(current_leader_epoch=0))
        assert only(connection.request(latest, 12)).error_code == ErrorCode.FENCED_LEADER_EPOCH
        asked = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=asked)])
        ended = connection.request(request, 4).topics[0].partitions[0]
        assert (ended.leader_epoch, ended.end_offset) == (0, 1)
        assert offsets_in(only(fetch(connection, topic)).records) == [0, 1]


def test_log_dirs_tell_the_size_of_what_lies_on_the_disk(own_node: Node) -> None:
    with own_node.connect() as connection:
        topic = new_topic(connection, partitions=2, segment_bytes="200")
        for _ in range(5):
            produce(connection, topic)
        (directory,) = connection.request(DescribeLogDirsRequest(topics=None), 4).results
    sizes = {each.partition_index: each.partition_size for each in directory.topics[0].partitions}
    on_disk = sum(path.stat().st_size for path in (own_node.data_dir / f"{topic}-0").glob("*.log"))
    assert sizes == {0: on_disk, 1: 0}
    assert (directory.error_code, directory.log_dir) == (0, str(own_node.data_dir))
    assert 0 < directory.usable_bytes <= directory.total_bytes


def test_a_request_waits_for_the_one_before_it_on_its_connection(node: Node, connection: Connection) -> None:
    topic = new_topic(connection)
    with node.connect() as pipelined:
        pipelined.send(fetch_request(topic, part(), max_wait_ms=LONG_MS), 12)
        pipelined.send(produce_request(topic, crafted_batch([(b"second", b"")])), 12)
        fetch(connection, topic)
        assert listed(connection, topic, LATEST) == 0
        produce(connection, topic, crafted_batch([(b"first", b"")]))
        limit = time.monotonic() + 10
        while listed(connection, topic, LATEST) < 2:
            assert time.monotonic() < limit, "the second request was not served"
            time.sleep(0.005)
    found = only(fetch(connection, topic)).records
    keys = [record.key for position, _ in iterate_batches(found) for record in decode_records(found, position)]
    assert keys == [b"first", b"second"]


def test_batches_of_many_records_are_looked_at_like_small_ones(connection: Connection) -> None:
    """They are opened in a thread; partitions of one request that need it and others are answered in their places."""
    topic = new_topic(connection, partitions=3, cleanup_policy="compact")
    keyed = crafted_batch([(b"k", b"v")] * 5000)
    one_without_key = crafted_batch([(b"k", b"v")] * 4000 + [(None, b"v")] + [(b"k", b"v")] * 999)
    data = [
        PartitionProduceData(index=0, records=keyed),
        PartitionProduceData(index=1, records=ONE),
        PartitionProduceData(index=2, records=one_without_key),
    ]
    request = ProduceRequest(
        acks=-1, timeout_ms=LONG_MS, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    [answer] = connection.request(request, 12).responses
    found = {each.index: each for each in answer.partition_responses}
    assert [found[index].error_code for index in range(3)] == [0, 0, ErrorCode.INVALID_RECORD]
    assert [found[index].base_offset for index in range(3)] == [0, 0, -1]
    assert [each.batch_index for each in found[2].record_errors] == [4000]


def test_times_are_found_behind_batches_of_many_records_and_behind_those_that_claim_too_much(
    connection: Connection,
) -> None:
    topic = new_topic(connection, retention_ms="-1")  # a round of retention may come in between
    time_ms = 1_700_000_000_000
    claims = crafted_batch([(b"k", b"v")] * 3000, base_timestamp=time_ms, max_timestamp=time_ms + 9000)
    later = crafted_batch([(b"k", b"v")] * 2000, base_timestamp=time_ms + 5000)
    for batch in (claims, later):
        produce(connection, topic, batch)
    # Each record is a millisecond later than the one before.
    for later_ms, expected in ((0, 0), (2999, 2999), (3000, 3000), (5001, 3001), (7000, -1)):
        assert listed(connection, topic, time_ms + later_ms) == expected
