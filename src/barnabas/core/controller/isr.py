"""AlterPartition: a leader tells who is in sync with it, and whether it has recovered from an unclean election.

A leader that is behind the metadata is told what it is behind of; one that is ahead of this controller gets
NOT_CONTROLLER, since a newer controller must exist. A member that is fenced, shutting down, unknown, or was seen by the
leader in another registration may not join. Nor may one whose log directory has failed, which Apache Kafka does not ask
for: a leader that still counts its last fetch would wait for it until it lags.

A leader that is told INELIGIBLE_REPLICA gives the proposal up and commits without the one that was to join. An earlier
sending of the same proposal may still be on its way, and by the time it comes that one may be eligible again: it would
be in sync without what was committed meanwhile. So the refusal raises the partition epoch, which Apache Kafka does not
do: whatever was proposed before it is out of date (decision 0080).
"""

from __future__ import annotations

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import directory_of, is_online
from barnabas.core.controller.elections import can_lead
from barnabas.core.controller.liveness import TopicRules, effective_min_insync, tracks_eligible_leaders
from barnabas.core.controller.partition_changes import RECOVERED, RECOVERING, Election, PartitionChange
from barnabas.core.metadata.state import NO_LEADER_CHANGE, MetadataImage, PartitionState
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from barnabas.wire.records.metadata import PartitionChangeRecord
from barnabas.wire.schema import Record

ANY_EPOCH = -1


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, rules: TopicRules
) -> ControllerDecision[AlterPartitionResponse]:
    sender = image.brokers.get(request.broker_id)
    if sender is None or sender.epoch != request.broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {request.broker_id} is not registered in epoch {request.broker_epoch}.",
        )
    records: list[Record] = []
    response = AlterPartitionResponse()
    for asked in request.topics:
        told = ResponseTopicData(topic_id=asked.topic_id)
        response.topics.append(told)
        topic = image.topic_by_id(asked.topic_id)
        for data in asked.partitions:
            if topic is None:
                told.partitions.append(_refused(data, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partition = topic.partitions.get(data.partition_index)
            members = _members(data)
            try:
                if partition is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                _check(image, partition, data, members, request.broker_id)
            except KafkaError as error:
                told.partitions.append(_refused(data, error.code))
                if error.code is ErrorCode.INELIGIBLE_REPLICA and partition is not None and _joins(partition, members):
                    records.append(PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id))
                continue
            record = _change(image, partition, data, members, rules)
            if record is not None:
                records.append(record)
            told.partitions.append(_altered(partition, record, request.broker_id))
    return ControllerDecision(records, response, is_atomic=False)


def _joins(partition: PartitionState, members: list[BrokerState]) -> bool:
    return any(member.broker_id not in partition.isr for member in members)


def _members(data: PartitionData) -> list[BrokerState]:
    """Before version 3 members come without the epochs that the leader knows them by."""
    return data.new_isr_with_epochs or [BrokerState(broker_id=each, broker_epoch=ANY_EPOCH) for each in data.new_isr]


def _check(
    image: MetadataImage, partition: PartitionState, data: PartitionData, members: list[BrokerState], sender: int
) -> None:
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if data.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if sender != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if data.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
    ids = [member.broker_id for member in members]
    if len(set(ids)) != len(ids) or not set(ids) <= set(partition.replicas) or sender not in ids:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if data.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if data.leader_recovery_state == RECOVERING and (len(ids) > 1 or partition.leader_recovery_state == RECOVERED):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(image, partition, member) for member in members):
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)


def _is_eligible(image: MetadataImage, partition: PartitionState, member: BrokerState) -> bool:
    broker = image.brokers.get(member.broker_id)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return False
    joins = member.broker_id not in partition.isr
    if joins and not is_online(broker, directory_of(partition, member.broker_id)):
        return False
    return member.broker_epoch in (ANY_EPOCH, broker.epoch)


def _change(
    image: MetadataImage, partition: PartitionState, data: PartitionData, members: list[BrokerState], rules: TopicRules
) -> PartitionChangeRecord | None:
    return PartitionChange(
        partition=partition,
        acceptable=lambda replica: can_lead(image, partition, replica),
        min_insync_replicas=effective_min_insync(image, partition, rules),
        tracks_eligible_leaders=tracks_eligible_leaders(image),
        isr=[member.broker_id for member in members],
        recovery_state=data.leader_recovery_state,
        election=Election.UNCLEAN if rules.unclean_election(partition.topic) else Election.ONLINE,
    ).record(image)


def _altered(partition: PartitionState, record: PartitionChangeRecord | None, sender: int) -> ResponsePartitionData:
    changed = partition if record is None else partition.merge(record)
    told = ResponsePartitionData(partition_index=partition.index)
    if record is not None and record.leader not in (sender, NO_LEADER_CHANGE):
        # The change completed a reassignment that takes the partition from the sender.
        told.error_code = ErrorCode.NEW_LEADER_ELECTED
        return told
    told.leader_id, told.leader_epoch = changed.leader, changed.leader_epoch
    told.isr, told.leader_recovery_state = changed.isr, changed.leader_recovery_state
    told.partition_epoch = changed.partition_epoch
    return told


def _refused(data: PartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=data.partition_index, error_code=code)
