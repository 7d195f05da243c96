"""Reassignments: other replicas for a partition. New ones are added first, old ones go once the new are in sync.

One that adds nobody is over at once. Otherwise it is in progress (`adding_replicas`, `removing_replicas`) until those
that are added have caught up, or it is cancelled. Also here: a broker that is gone for good is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import MIGRATING, default_directory
from barnabas.core.controller.elections import can_lead
from barnabas.core.controller.liveness import TopicRules, leave_isr
from barnabas.core.controller.partitions import check_assignment
from barnabas.core.metadata.state import MetadataImage, PartitionState
from barnabas.core.steps import Steps, Stepwise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from barnabas.wire.messages.unregister_broker import UnregisterBrokerResponse
from barnabas.wire.records.metadata import PartitionChangeRecord, UnregisterBrokerRecord
from barnabas.wire.schema import Record


@Stepwise
def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest
) -> Steps[ControllerDecision[AlterPartitionReassignmentsResponse]]:
    may_change = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_change)
    if request.topics:
        response.error_message = None
    records: list[Record] = []
    for topic in request.topics:
        told = ReassignableTopicResponse(name=topic.name)
        response.responses.append(told)
        yield
        for each in topic.partitions:
            yield
            result = ReassignablePartitionResponse(partition_index=each.partition_index, error_message=None)
            told.partitions.append(result)
            try:
                partition = _partition(image, topic.name, each.partition_index)
                if each.replicas is None:
                    records += _cancelled(image, partition)
                else:
                    records += _reassigned(image, partition, each.replicas, may_change)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
    return ControllerDecision(records, response)


def _partition(image: MetadataImage, topic: str, index: int) -> PartitionState:
    known = image.topics.get(topic)
    partition = None if known is None else known.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {topic}-{index}.")
    return partition


def _cancelled(image: MetadataImage, partition: PartitionState) -> list[Record]:
    if not is_ongoing(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return _settled(image, partition, [it for it in partition.replicas if it not in partition.adding_replicas])


def _reassigned(
    image: MetadataImage, partition: PartitionState, target: Sequence[int], may_change: bool
) -> list[Record]:
    check_assignment(image, target, None)
    # Of a partition that is being moved already, the replicas it is moved to count.
    factor = len(set(partition.replicas) - set(partition.removing_replicas))
    if not may_change and len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )
    present = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
    adding = [replica for replica in target if replica not in present]
    if not adding:
        is_new = list(target) != partition.replicas or is_ongoing(partition)
        return _settled(image, partition, target) if is_new else []
    removing = [replica for replica in present if replica not in target]
    replicas = [*target, *removing]
    changed = _changed(image, partition, replicas)
    changed.adding_replicas, changed.removing_replicas = adding, removing
    return [changed]


def _settled(image: MetadataImage, partition: PartitionState, target: Sequence[int]) -> list[Record]:
    """The partition with these replicas, all of which have what the others have."""
    in_sync = [replica for replica in partition.isr if replica in target]
    if not in_sync:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of these replicas is in sync.")
    changed = _changed(image, partition, target)
    if in_sync != partition.isr:
        changed.isr = in_sync
    if partition.leader not in target:
        candidates = [replica for replica in target if replica in in_sync and can_lead(image, partition, replica)]
        if not candidates:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of these replicas can lead.")
        changed.leader = candidates[0]
    elif not set(partition.replicas) <= set(target):
        changed.leader = partition.leader  # a new leader epoch: nobody counts those who go any more
    if partition.adding_replicas:
        changed.adding_replicas = []
    if partition.removing_replicas:
        changed.removing_replicas = []
    return [changed]


def _changed(image: MetadataImage, partition: PartitionState, replicas: Sequence[int]) -> PartitionChangeRecord:
    known = dict(zip(partition.replicas, partition.directories or [MIGRATING] * len(partition.replicas), strict=True))
    changed = PartitionChangeRecord(partition_id=partition.index, topic_id=partition.topic_id)
    if list(replicas) != partition.replicas:
        changed.replicas = list(replicas)
        changed.directories = [
            known[replica] if replica in known else default_directory(image.brokers[replica]) for replica in replicas
        ]
    return changed


def is_ongoing(partition: PartitionState) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


@Stepwise
def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Steps[ListPartitionReassignmentsResponse]:
    """Of the partitions asked for, or of all, those that are being reassigned; what does not exist is not."""
    if request.topics is None:
        asked = {name: list(topic.partitions) for name, topic in image.topics.items()}
    else:
        asked = {each.name: each.partition_indexes for each in request.topics if each.name in image.topics}
    listed = []
    for name, indexes in asked.items():
        yield
        partitions = image.topics[name].partitions
        ongoing = [partitions[index] for index in indexes if index in partitions and is_ongoing(partitions[index])]
        if ongoing:
            listed.append(OngoingTopicReassignment(name=name, partitions=[_ongoing(each) for each in ongoing]))
    return ListPartitionReassignmentsResponse(error_message=None, topics=listed)


def _ongoing(partition: PartitionState) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=partition.replicas,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
    )


def unregister_broker(
    image: MetadataImage, broker_id: int, own_id: int, rules: TopicRules
) -> ControllerDecision[UnregisterBrokerResponse]:
    """It leads nothing and is in sync with nobody any more; then it is forgotten."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker {broker_id} is registered.")
    if broker_id == own_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The node cannot take itself out while it runs.")
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    records = [*leave_isr(image, broker_id, rules), record]
    return ControllerDecision(records, UnregisterBrokerResponse(error_message=None), is_atomic=False)
