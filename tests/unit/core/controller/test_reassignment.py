from __future__ import annotations

import pytest

from barnabas.core.controller.liveness import TopicRules
from barnabas.core.controller.reassignment import (
    alter_partition_reassignments,
    list_partition_reassignments,
    unregister_broker,
)
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.records.metadata import PartitionChangeRecord, UnregisterBrokerRecord
from barnabas.wire.schema import Record

from .conftest import ClusterMaker, identity

RULES = TopicRules(min_insync_replicas=lambda topic: 1, unclean_election=lambda topic: False)


def reassign(
    image: MetadataImage, replicas: list[int] | None, *, may_change: bool = True, partition: int = 0
) -> tuple[list[Record], int]:
    wanted = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change, topics=[ReassignableTopic(name="t", partitions=[wanted])]
    )
    decision = alter_partition_reassignments(image, request)
    image.replay_all(decision.records)
    return list(decision.records), decision.response.responses[0].partitions[0].error_code


def listed(image: MetadataImage) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    answer = list_partition_reassignments(image, ListPartitionReassignmentsRequest(topics=None))
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    ]


def test_a_replica_that_is_added_is_in_progress_until_it_is_cancelled(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], topics={"t": [[1]]})
    added = PartitionChangeRecord(
        topic_id=identity(1),
        partition_id=0,
        replicas=[2, 1],
        directories=[identity(2001), identity(1001)],
        adding_replicas=[2],
        removing_replicas=[1],
    )
    assert reassign(image, [2]) == ([added], 0)
    assert listed(image) == [("t", 0, [2, 1], [2], [1])]
    cancelled = PartitionChangeRecord(
        topic_id=identity(1),
        partition_id=0,
        leader=1,  # a new leader epoch, in which nobody counts the replica that goes
        replicas=[1],
        directories=[identity(1001)],
        adding_replicas=[],
        removing_replicas=[],
    )
    assert reassign(image, None) == ([cancelled], 0)
    assert listed(image) == []
    assert reassign(image, None) == ([], ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)


def test_one_that_adds_nobody_is_over_at_once_and_somebody_else_leads_if_need_be(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    assert reassign(image, [1, 2]) == ([], 0)
    other_way = PartitionChangeRecord(
        topic_id=identity(1), partition_id=0, replicas=[2, 1], directories=[identity(2001), identity(1001)]
    )
    assert reassign(image, [2, 1]) == ([other_way], 0)
    alone = PartitionChangeRecord(
        topic_id=identity(1), partition_id=0, replicas=[2], directories=[identity(2001)], isr=[2], leader=2
    )
    assert reassign(image, [2]) == ([alone], 0)
    assert listed(image) == []


@pytest.mark.parametrize("replicas", [[], [1, 1], [3], [-1]])
def test_assignments_that_cannot_be(cluster: ClusterMaker, replicas: list[int]) -> None:
    image = cluster([1], topics={"t": [[1]]})
    assert reassign(image, replicas) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_the_replication_factor_may_have_to_stay(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], topics={"t": [[1]]})
    assert reassign(image, [1, 2], may_change=False) == ([], ErrorCode.INVALID_REPLICATION_FACTOR)
    assert reassign(image, [1], may_change=False) == ([], 0)
    assert reassign(image, [1], partition=7) == ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_factor_that_has_to_stay_is_the_one_the_partition_is_moved_to(cluster: ClusterMaker) -> None:
    image = cluster([1, 2, 3], topics={"t": [[1]]})
    reassign(image, [2, 3])
    partition = ReassignablePartition(partition_index=0, replicas=[1])
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=False, topics=[ReassignableTopic(name="t", partitions=[partition])]
    )
    refused = alter_partition_reassignments(image, request).response.responses[0].partitions[0]
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.error_message == "The replication factor is changed from 2 to 1"
    assert reassign(image, [3, 1], may_change=False)[1] == 0


def test_a_broker_is_taken_out_by_its_epoch_but_not_the_node_itself(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], fenced=[2])
    assert unregister_broker(image, 2, 1, RULES).records == [UnregisterBrokerRecord(broker_id=2, broker_epoch=2)]
    for broker, code in ((3, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, ErrorCode.INVALID_REQUEST)):
        with pytest.raises(KafkaError) as refused:
            unregister_broker(image, broker, 1, RULES)
        assert refused.value.code is code


def test_a_broker_that_is_taken_out_leads_nothing_and_is_in_sync_with_nobody(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], topics={"t": [[2, 1]]})
    changed, _ = records = unregister_broker(image, 2, 1, RULES).records
    assert changed == PartitionChangeRecord(topic_id=identity(1), partition_id=0, leader=1, isr=[1])
    assert records[1] == UnregisterBrokerRecord(broker_id=2, broker_epoch=2)
