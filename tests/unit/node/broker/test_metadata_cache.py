"""Metadata answers packed by hand are the bytes that the codec would have written."""

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.broker.metadata_cache import EncodedMetadata, MetadataCache
from barnabas.node.requests import RawResponse
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.records.metadata import (
    BrokerEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.wire.schema import Record
from barnabas.wire.uuids import ZERO_UUID, Uuid

VERSIONS = range(14)
ORDERS, OFFSETS = Uuid(b"o" * 16), Uuid(b"c" * 16)
NOT_ASKED = -(1 << 31)


def broker(number: int, *, fenced: bool = False, listener: str = "PLAINTEXT") -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=number,
        fenced=fenced,
        rack="rack" if number == 1 else None,
        end_points=[BrokerEndpoint(name=listener, host=f"host{number}", port=9090 + number)],
    )


def partition(topic_id: Uuid, index: int, replicas: list[int], leader: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id, partition_id=index, replicas=replicas, isr=replicas, leader=leader, leader_epoch=index + 7
    )


@pytest.fixture
def image() -> MetadataImage:
    """Broker 2 is fenced, broker 3 has another listener, broker 4 is unknown."""
    image = MetadataImage(offset=10)
    image.replay_all(
        [
            broker(1),
            broker(2, fenced=True),
            broker(3, listener="OTHER"),
            TopicRecord(name="orders", topic_id=ORDERS),
            partition(ORDERS, 0, [1], 1),
            partition(ORDERS, 1, [1, 2], 1),
            partition(ORDERS, 2, [3, 1], 3),
            partition(ORDERS, 3, [4], 4),
            partition(ORDERS, 4, [1], -1),
            TopicRecord(name="__consumer_offsets", topic_id=OFFSETS),
            *(partition(OFFSETS, index, [1], 1) for index in range(200)),
        ]
    )
    return image


def expected_partitions(version: int) -> list[MetadataResponsePartition]:
    no_listener = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    no_leader = ErrorCode.LEADER_NOT_AVAILABLE
    if version == 0:
        unavailable = ErrorCode.REPLICA_NOT_AVAILABLE
        rows = [(0, 1, [1], []), (unavailable, 1, [1], []), (no_listener, -1, [1], []), (no_leader, -1, [], [])]
    else:
        rows = [(0, 1, [1], []), (0, 1, [1, 2], [2]), (no_listener, -1, [3, 1], [3]), (no_leader, -1, [4], [4])]
    rows.append((no_leader, -1, [1], []))
    return [
        MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=index + 7,
            replica_nodes=replicas,
            isr_nodes=replicas,
            offline_replicas=offline,
        )
        for index, (error, leader, replicas, offline) in enumerate(rows)
    ]


def expected(version: int, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=1, host="host1", port=9091, rack="rack")]
    return MetadataResponse(brokers=brokers, cluster_id="cluster", controller_id=1, topics=topics)


def expected_orders(version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(name="orders", topic_id=ORDERS, partitions=expected_partitions(version))


def expected_offsets() -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=index + 7, replica_nodes=[1], isr_nodes=[1]
        )
        for index in range(200)
    ]
    return MetadataResponseTopic(name="__consumer_offsets", topic_id=OFFSETS, is_internal=True, partitions=partitions)


def bytes_of(response: RawResponse) -> bytes:
    return b"".join(bytes(part) for part in response.parts)  # type: ignore[arg-type]


def encoded(image: MetadataImage, version: int) -> EncodedMetadata:
    return MetadataCache(1, "cluster").encoded(image, version, "PLAINTEXT")


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_the_bytes_of_the_codec(image: MetadataImage, version: int) -> None:
    answer = expected(version, [expected_orders(version), expected_offsets()])
    assert bytes_of(encoded(image, version).all_topics()) == answer.encode(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_that_are_refused_are_the_bytes_of_the_codec(image: MetadataImage, version: int) -> None:
    answers = encoded(image, version)
    unknown_id = Uuid(b"?" * 16)
    refused = [
        answers.refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nope"),
        answers.refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "ä" * 100),
        answers.refused(ErrorCode.UNKNOWN_TOPIC_ID, None, unknown_id),
        answers.topic("orders"),
    ]
    answer = expected(
        version,
        [
            MetadataResponseTopic(error_code=3, name="nope", topic_id=ZERO_UUID),
            MetadataResponseTopic(error_code=17, name="ä" * 100),
            MetadataResponseTopic(error_code=100, name=None if version >= 12 else "", topic_id=unknown_id),
            expected_orders(version),
        ],
    )
    assert bytes_of(answers.answer(refused)) == answer.encode(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_only_topic_that_was_asked_for_is_the_bytes_of_the_codec(image: MetadataImage, version: int) -> None:
    answers, answer = encoded(image, version), expected(version, [expected_orders(version)])
    answers.answer([], 8096)
    assert bytes_of(answers.only_topic("orders")) == answer.encode(version)
    assert answers.only_topic("orders").parts[0] is answers.only_topic("orders").parts[0]


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_stand_where_they_are_asked_for(image: MetadataImage, version: int) -> None:
    answers = encoded(image, version)
    orders = expected_orders(version)
    orders.topic_authorized_operations = 3576
    nope = MetadataResponseTopic(error_code=3, name="nope", topic_authorized_operations=3576)
    answer = expected(version, [orders, nope])
    cluster = 8096 if version <= 10 else NOT_ASKED
    answer.cluster_authorized_operations = cluster
    topics = [
        answers.topic("orders", 3576),
        answers.refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nope", operations=3576),
    ]
    assert bytes_of(answers.answer(topics, cluster)) == answer.encode(version)
    plain = expected(version, [expected_orders(version)])
    assert bytes_of(answers.answer([answers.topic("orders")])) == plain.encode(version)


def test_answers_are_kept_while_nothing_changes(image: MetadataImage) -> None:
    cache = MetadataCache(1, "cluster")
    first = cache.encoded(image, 13, "PLAINTEXT")
    assert cache.encoded(image, 13, "PLAINTEXT") is first
    assert first.all_topics().parts[0] is first.all_topics().parts[0]
    assert cache.encoded(image, 12, "PLAINTEXT") is not first
    assert cache.encoded(image, 13, "OTHER") is not first


def changed(image: MetadataImage, *records: Record) -> None:
    image.replay_all(records)
    image.offset += len(records)


def check(cache: MetadataCache, image: MetadataImage) -> None:
    """What a cache answers is what one answers that has kept nothing."""
    for version in (0, 7, 13):
        kept, fresh = cache.encoded(image, version, "PLAINTEXT"), encoded(image, version)
        assert bytes_of(kept.all_topics()) == bytes_of(fresh.all_topics())
        for name in image.topics:
            assert bytes_of(kept.only_topic(name)) == bytes_of(fresh.answer([fresh.topic(name)]))


def test_a_topic_that_did_not_change_is_not_packed_again(image: MetadataImage) -> None:
    cache = MetadataCache(1, "cluster")
    before = cache.encoded(image, 13, "PLAINTEXT").topic("orders")
    changed(image, TopicRecord(name="new", topic_id=Uuid(b"n" * 16)), partition(Uuid(b"n" * 16), 0, [1], 1))
    assert cache.encoded(image, 13, "PLAINTEXT").topic("orders") is before


def test_topics_that_come_change_and_go_are_told_as_they_are(image: MetadataImage) -> None:
    cache = MetadataCache(1, "cluster")
    check(cache, image)
    again = Uuid(b"2" * 16)
    for records in (
        [TopicRecord(name="new", topic_id=Uuid(b"n" * 16)), partition(Uuid(b"n" * 16), 0, [1], 1)],
        [PartitionChangeRecord(topic_id=ORDERS, partition_id=4, leader=1)],
        [partition(ORDERS, 5, [1], 1)],
        [RemoveTopicRecord(topic_id=OFFSETS)],
        [RemoveTopicRecord(topic_id=ORDERS), TopicRecord(name="orders", topic_id=again), partition(again, 0, [1], 1)],
        [TopicRecord(name="empty", topic_id=Uuid(b"e" * 16))],
    ):
        changed(image, *records)
        check(cache, image)


def test_when_a_broker_changes_everything_is_told_anew(image: MetadataImage) -> None:
    cache = MetadataCache(1, "cluster")
    check(cache, image)
    changed(image, broker(2))
    check(cache, image)
    changed(image, broker(1, fenced=True))
    check(cache, image)


def test_another_image_is_another_answer(image: MetadataImage) -> None:
    cache = MetadataCache(1, "cluster")
    check(cache, image)
    other = image.copy()
    other.replay(RemoveTopicRecord(topic_id=ORDERS))
    check(cache, other)


def test_topics_long_gone_are_forgotten(image: MetadataImage) -> None:
    cache = MetadataCache(1, "cluster")
    for number in range(1500):
        topic_id = Uuid(number.to_bytes(16, "big"))
        changed(image, TopicRecord(name=f"t{number}", topic_id=topic_id), partition(topic_id, 0, [1], 1))
        answers = cache.encoded(image, 13, "PLAINTEXT")
        answers.topic(f"t{number}")
        changed(image, RemoveTopicRecord(topic_id=topic_id))
    cache.encoded(image, 13, "PLAINTEXT")
    assert len(answers._topics) <= 1010
