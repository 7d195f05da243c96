from barnabas.core.controller.assignment import assign_replicas_to_dirs
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    default_directory,
    is_online,
    lose,
)
from barnabas.core.controller.liveness import TopicRules
from barnabas.core.metadata.state import BrokerState, MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from barnabas.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.wire.uuids import ZERO_UUID, Uuid

FIRST, SECOND = Uuid(b"1" * 16), Uuid(b"2" * 16)


def assign(
    image: MetadataImage, broker_id: int, chosen: dict[tuple[Uuid, int], Uuid]
) -> ControllerDecision[AssignReplicasToDirsResponse]:
    """One directory."""
    topics = [
        TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=index)]) for topic_id, index in chosen
    ]
    [directory] = set(chosen.values())
    request = AssignReplicasToDirsRequest(broker_id=broker_id, directories=[DirectoryData(id=directory, topics=topics)])
    return assign_replicas_to_dirs(image, request, TopicRules(lambda topic: 1, lambda topic: False))


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
    decision = assign(
        image,
        1,
        {(topic_id, 0): FIRST, (topic_id, 1): FIRST, (topic_id, 2): FIRST, (topic_id, 9): FIRST, (gone, 0): FIRST},
    )
    assert [each.partitions[0].error_code for each in decision.response.directories[0].topics] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert decision.records == [
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=[FIRST, SECOND]),
        PartitionChangeRecord(topic_id=topic_id, partition_id=2, directories=[FIRST, MIGRATING]),
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
    moved = assign(image, 1, {(topic_id, 0): SECOND}).records
    assert moved == [PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=[SECOND, LOST])]
    image.replay_all(moved)
    assert assign(image, 1, {(topic_id, 0): SECOND}).records == []
    assert assign(image, 3, {(topic_id, 0): FIRST}).records == []


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


def test_what_lies_in_a_directory_that_has_failed_meanwhile_gets_another_leader() -> None:
    topic_id = Uuid(b"orders-topic-id!")
    image = MetadataImage()
    for broker_id, log_dirs in ((1, [FIRST]), (2, [SECOND])):
        image.replay(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=False, log_dirs=log_dirs))
    image.replay(TopicRecord(name="orders", topic_id=topic_id))
    image.replay(
        PartitionRecord(
            topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1, directories=[UNASSIGNED, SECOND]
        )
    )
    gone = Uuid(b"failed directory")
    decision = assign(image, 1, {(topic_id, 0): gone})
    assert decision.records == [
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=[gone, SECOND]),
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[2], leader=2),
    ]
    image.replay_all(decision.records)
    assert assign(image, 1, {(topic_id, 0): gone}).records == []


def test_a_replica_that_has_stayed_where_it_was_leads_again() -> None:
    """It was about to move to a directory that has failed: the controller had been told of that one."""
    topic_id = Uuid(b"orders-topic-id!")
    image = MetadataImage()
    image.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=1, fenced=False, log_dirs=[FIRST, SECOND]))
    image.replay(TopicRecord(name="orders", topic_id=topic_id))
    image.replay(
        PartitionRecord(topic_id=topic_id, partition_id=0, replicas=[1], isr=[1], leader=1, directories=[SECOND])
    )
    image.replay_all(lose(image, 1, SECOND).records)
    assert image.topics["orders"].partitions[0].leader == -1
    assert assign(image, 1, {(topic_id, 0): FIRST}).records == [
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=[FIRST]),
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1),
    ]
