from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.core.controller.isr import alter_partition
from barnabas.core.controller.liveness import TopicRules
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from barnabas.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnfenceBrokerRecord,
)
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

Cluster = Callable[..., MetadataImage]
RULES = TopicRules(min_insync_replicas=lambda topic: 1, unclean_election=lambda topic: False)
TOPIC = Uuid((1).to_bytes(16, "big"))


def alter(
    image: MetadataImage, members: list[tuple[int, int]], *, sender: int = 1, topic: Uuid = TOPIC, **said: int
) -> tuple[list[Record], ResponsePartitionData]:
    fields: dict[str, int] = {"partition_index": 0, "leader_epoch": 3, "partition_epoch": 4} | said
    isr = [BrokerState(broker_id=broker, broker_epoch=epoch) for broker, epoch in members]
    data = PartitionData(new_isr_with_epochs=isr, **fields)
    request = AlterPartitionRequest(
        broker_id=sender, broker_epoch=sender, topics=[TopicData(topic_id=topic, partitions=[data])]
    )
    decision = alter_partition(image, request, RULES)
    return list(decision.records), decision.response.topics[0].partitions[0]


def test_a_leader_shrinks_and_expands_those_in_sync(cluster: Cluster) -> None:
    image = cluster([1, 2, 3], topics={"t": [[1, 2, 3]]})
    records, told = alter(image, [(1, 1), (3, 3)])
    assert records == [PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1, 3])]
    assert (told.error_code, told.isr, told.leader_epoch, told.partition_epoch) == (0, [1, 3], 3, 5)
    image.replay_all(records)
    records, told = alter(image, [(1, 1), (3, 3), (2, 2)], partition_epoch=5)
    assert records == [PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1, 3, 2])]
    assert alter(cluster([1], topics={"t": [[1]]}), [(1, 1)])[0] == []


def test_a_replica_whose_directory_has_failed_may_stay_and_may_not_join(cluster: Cluster) -> None:
    image = cluster([1, 2, 3], topics={"t": [[1, 2, 3]]}, log_dirs=2)
    (lost, kept) = image.brokers[2].log_dirs
    at = [image.brokers[broker].log_dirs[0] for broker in (1, 2, 3)]
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, directories=at))
    image.replay(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, log_dirs=[kept]))
    assert at[1] == lost
    assert alter(image, [(1, 1), (2, 2)], partition_epoch=5)[1].error_code == 0, "its leaving is decided elsewhere"
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1, 3]))
    records, told = alter(image, [(1, 1), (3, 3), (2, 2)], partition_epoch=6)
    assert told.error_code == ErrorCode.INELIGIBLE_REPLICA
    image.replay_all(records)
    image.replay(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, log_dirs=[kept, lost]))
    assert alter(image, [(1, 1), (3, 3), (2, 2)], partition_epoch=7)[1].error_code == 0


def test_a_proposal_that_was_refused_once_is_out_of_date_when_it_comes_again(cluster: Cluster) -> None:
    image = cluster([1, 2], fenced=[2], topics={"t": [[1, 2]]})
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1]))
    proposal = [(1, 1), (2, 2)]
    records, told = alter(image, proposal, partition_epoch=5)
    assert told.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert records == [PartitionChangeRecord(topic_id=TOPIC, partition_id=0)]
    image.replay_all(records)
    image.replay(UnfenceBrokerRecord(id=2, epoch=2))
    records, told = alter(image, proposal, partition_epoch=5)
    assert (records, told.error_code) == ([], ErrorCode.INVALID_UPDATE_VERSION)
    assert alter(image, proposal, partition_epoch=6)[1].error_code == 0


def test_who_is_in_sync_and_ineligible_makes_no_proposal_out_of_date(cluster: Cluster) -> None:
    image = cluster([1, 2, 3], fenced=[3], topics={"t": [[1, 2, 3]]})
    records, told = alter(image, [(1, 1), (3, 3)])
    assert (records, told.error_code) == ([], ErrorCode.INELIGIBLE_REPLICA)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"topic": Uuid(b"unknown topic id")}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 4}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"sender": 2}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 3}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"members": [(1, 1), (4, 4)]}, ErrorCode.INVALID_REQUEST),
        ({"members": [(2, 2)]}, ErrorCode.INVALID_REQUEST),
        ({"members": [(1, 1), (2, 2), (2, 2)]}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"members": [(1, 1), (2, 7)]}, ErrorCode.INELIGIBLE_REPLICA),
        ({"members": [(1, 1), (3, 3)]}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_what_does_not_fit_the_metadata_is_refused(cluster: Cluster, said: dict[str, object], code: ErrorCode) -> None:
    image = cluster([1, 2, 3, 4], fenced=[3], topics={"t": [[1, 2, 3]]})
    arguments = {"members": [(1, 1), (2, 2)]} | said
    records, told = alter(image, **arguments)  # type: ignore[arg-type]
    assert (records, told.error_code) == ([], code)


def test_a_broker_of_another_epoch_is_refused_whole(cluster: Cluster) -> None:
    request = AlterPartitionRequest(broker_id=1, broker_epoch=9)
    with pytest.raises(KafkaError) as refused:
        alter_partition(cluster([1]), request, RULES)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_member_whose_epoch_is_unknown_to_the_leader_may_join(cluster: Cluster) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1]))
    assert alter(image, [(1, -1), (2, -1)], partition_epoch=5)[1].error_code == 0


def test_the_last_member_that_joins_completes_a_reassignment(cluster: Cluster) -> None:
    image = cluster([1, 2, 3], topics={"t": [[1, 2]]})
    directories = [image.brokers[each].log_dirs[0] for each in (3, 2, 1)]
    image.replay(
        PartitionChangeRecord(
            topic_id=TOPIC,
            partition_id=0,
            replicas=[3, 2, 1],
            adding_replicas=[3],
            removing_replicas=[1],
            directories=directories,
        )
    )
    records, told = alter(image, [(1, 1), (2, 2), (3, 3)], partition_epoch=5)
    (record,) = records
    assert record == PartitionChangeRecord(
        topic_id=TOPIC,
        partition_id=0,
        leader=3,
        isr=[2, 3],
        replicas=[3, 2],
        adding_replicas=[],
        removing_replicas=[],
        directories=directories[:2],
    )
    assert told.error_code == ErrorCode.NEW_LEADER_ELECTED
