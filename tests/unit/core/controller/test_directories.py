from barnabas.core.controller.directories import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    assign,
    default_directory,
    is_online,
    lose,
)
from barnabas.core.metadata.state import BrokerState, MetadataImage
from barnabas.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.wire.uuids import ZERO_UUID, Uuid

FIRST, SECOND = Uuid(b"1" * 16), Uuid(b"2" * 16)


def broker(*log_dirs: Uuid) -> BrokerState:
    return BrokerState(id=1, epoch=0, incarnation_id=ZERO_UUID, log_dirs=list(log_dirs))


def test_a_replica_lies_in_the_only_directory_or_is_not_assigned_yet() -> None:
    assert default_directory(broker(FIRST)) == FIRST
    assert default_directory(broker(FIRST, SECOND)) == UNASSIGNED
    assert default_directory(broker()) == MIGRATING


def test_a_directory_is_online_if_the_broker_has_it_or_has_not_said() -> None:
    assert is_online(broker(FIRST), FIRST)
    assert not is_online(broker(FIRST), SECOND)
    assert is_online(broker(FIRST), UNASSIGNED)
    assert is_online(broker(FIRST), MIGRATING)
    assert not is_online(broker(FIRST), LOST)
    assert is_online(broker(), FIRST)
    assert not is_online(broker(), LOST)


def test_a_broker_tells_where_its_replicas_lie_and_leaves_those_of_others_alone() -> None:
    topic_id = Uuid(b"orders-topic-id!")
    image = MetadataImage()
    image.replay(TopicRecord(name="orders", topic_id=topic_id))
    for index, directories in enumerate(([UNASSIGNED, SECOND], [FIRST, SECOND], [])):
        image.replay(
            PartitionRecord(
                topic_id=topic_id, partition_id=index, replicas=[1, 2], isr=[1, 2], leader=1, directories=directories
            )
        )
    gone = Uuid(b"deleted-topic-id")
    decision = assign(image, 1, {(topic_id, 0): FIRST, (topic_id, 1): SECOND, (topic_id, 2): FIRST, (gone, 0): FIRST})
    assert decision.records == [
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=[FIRST, SECOND]),
        PartitionChangeRecord(topic_id=topic_id, partition_id=2, directories=[FIRST, UNASSIGNED]),
    ]


def test_a_replica_that_has_moved_is_told_of_once() -> None:
    topic_id = Uuid(b"orders-topic-id!")
    image = MetadataImage()
    image.replay(TopicRecord(name="orders", topic_id=topic_id))
    image.replay(
        PartitionRecord(
            topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1], leader=1, directories=[FIRST, LOST]
        )
    )
    moved = assign(image, 1, {(topic_id, 0): SECOND}, moved=True).records
    assert moved == [PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=[SECOND, LOST])]
    image.replay_all(moved)
    assert assign(image, 1, {(topic_id, 0): SECOND}, moved=True).records == []
    assert assign(image, 3, {(topic_id, 0): FIRST}, moved=True).records == []


def test_partitions_of_a_lost_directory_have_no_leader_and_others_keep_theirs() -> None:
    topic_id = Uuid(b"orders-topic-id!")
    image = MetadataImage()
    image.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=7, fenced=False, log_dirs=[FIRST, SECOND]))
    image.replay(TopicRecord(name="orders", topic_id=topic_id))
    for index, directory in enumerate((FIRST, SECOND)):
        image.replay(
            PartitionRecord(
                topic_id=topic_id, partition_id=index, replicas=[1], isr=[1], leader=1, directories=[directory]
            )
        )
    decision = lose(image, 1, SECOND)
    assert decision.records == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, log_dirs=[FIRST]),
        PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=-1),
    ]
    image.replay_all(decision.records)
    assert lose(image, 1, SECOND).records == []
    assert lose(image, 1, FIRST).records == [], "without any directory the broker itself is gone"
    assert lose(image, 9, FIRST).records == []
