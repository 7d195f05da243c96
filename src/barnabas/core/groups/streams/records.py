"""What a streams group persists in __consumer_offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.core.coordinator.records import CoordinatorRecord, Kind, Kinds
from barnabas.core.groups.streams.tasks import ActiveTasks, TaskRoles, Tasks
from barnabas.wire.records import streams_groups as wire

if TYPE_CHECKING:
    from barnabas.core.groups.streams.member import StreamsMember

KINDS: Kinds = {
    17: Kind(wire.StreamsGroupMetadataKey, wire.StreamsGroupMetadataValue),
    19: Kind(wire.StreamsGroupMemberMetadataKey, wire.StreamsGroupMemberMetadataValue),
    20: Kind(wire.StreamsGroupTargetAssignmentMetadataKey, wire.StreamsGroupTargetAssignmentMetadataValue),
    21: Kind(wire.StreamsGroupTargetAssignmentMemberKey, wire.StreamsGroupTargetAssignmentMemberValue),
    22: Kind(wire.StreamsGroupCurrentMemberAssignmentKey, wire.StreamsGroupCurrentMemberAssignmentValue),
    23: Kind(wire.StreamsGroupTopologyKey, wire.StreamsGroupTopologyValue),
}
_Current = wire.StreamsGroupCurrentMemberAssignmentTaskIds


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    value = wire.StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[wire.LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)],
    )
    return CoordinatorRecord(wire.StreamsGroupMetadataKey(group_id=group_id), value)


def topology_record(group_id: str, topology: wire.StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(wire.StreamsGroupTopologyKey(group_id=group_id), topology)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    endpoint = member.user_endpoint
    value = wire.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else wire.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[wire.KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags)],
    )
    return CoordinatorRecord(wire.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.id), value)


def target_record(group_id: str, member_id: str, target: TaskRoles) -> CoordinatorRecord:
    value = wire.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_listed(target.active),
        standby_tasks=_listed(target.standby),
        warmup_tasks=_listed(target.warmup),
    )
    return CoordinatorRecord(wire.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, assigned_ms: int) -> CoordinatorRecord:
    value = wire.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms)
    return CoordinatorRecord(wire.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    value = wire.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_with_epochs(member.assigned.active),
        standby_tasks=_without_epochs(member.assigned.standby),
        warmup_tasks=_without_epochs(member.assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(member.revoking.active),
        standby_tasks_pending_revocation=_without_epochs(member.revoking.standby),
        warmup_tasks_pending_revocation=_without_epochs(member.revoking.warmup),
    )
    key = wire.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    return CoordinatorRecord(key, value)


def _listed(tasks: Tasks) -> list[wire.TaskIds]:
    return [wire.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _without_epochs(tasks: Tasks) -> list[_Current]:
    return [_Current(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _with_epochs(tasks: ActiveTasks) -> list[_Current]:
    return [
        _Current(
            subtopology_id=each,
            partitions=sorted(tasks[each]),
            assignment_epochs=[tasks[each][partition] for partition in sorted(tasks[each])],
        )
        for each in sorted(tasks)
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    ids = {"group_id": group_id, "member_id": member_id}
    return [
        CoordinatorRecord(wire.StreamsGroupCurrentMemberAssignmentKey(**ids), None),
        CoordinatorRecord(wire.StreamsGroupTargetAssignmentMemberKey(**ids), None),
        CoordinatorRecord(wire.StreamsGroupMemberMetadataKey(**ids), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    """Everything of a group, in Kafka's order."""
    group, ids = {"group_id": group_id}, list(member_ids)
    return [
        *(CoordinatorRecord(wire.StreamsGroupCurrentMemberAssignmentKey(**group, member_id=i), None) for i in ids),
        *(CoordinatorRecord(wire.StreamsGroupTargetAssignmentMemberKey(**group, member_id=i), None) for i in ids),
        CoordinatorRecord(wire.StreamsGroupTargetAssignmentMetadataKey(**group), None),
        *(CoordinatorRecord(wire.StreamsGroupMemberMetadataKey(**group, member_id=i), None) for i in ids),
        CoordinatorRecord(wire.StreamsGroupMetadataKey(**group), None),
        CoordinatorRecord(wire.StreamsGroupTopologyKey(**group), None),
    ]
