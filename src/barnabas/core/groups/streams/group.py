"""A streams group: what its records add up to.

Beside members and targets it has the application's topology, and knows of each task which processes have it. Whether
the topics of the topology are there and fit together (`topology.configure`) follows from the cluster, not from records:
it is worked out when a heartbeat needs it, and kept as long as the topics are the same.

    EMPTY         no members
    NOT_READY     the topics that the topology needs are not all there, or do not fit together
    ASSIGNING     the group epoch is ahead of the target assignment
    RECONCILING   members are on their way to the target assignment
    STABLE        all of them have arrived
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.groups.modern import NO_ASSIGNMENT_EPOCH, GroupState, ModernGroup
from barnabas.core.groups.state import GroupType
from barnabas.core.groups.streams.member import StreamsMember
from barnabas.core.groups.streams.records import group_tombstones
from barnabas.core.groups.streams.tasks import NO_ACTIVE_TASKS, NOTHING, ActiveTasks, AssignedTasks, TaskRoles, tasks_of
from barnabas.core.groups.streams.topology import ConfiguredTopology, Topology
from barnabas.wire.records import streams_groups as wire
from barnabas.wire.uuids import Uuid

STREAMS_PROTOCOL = "streams"
NOBODY: frozenset[str] = frozenset()
_ONLY = "the group's"


class Validated(NamedTuple):
    """The topology epoch whose topics were all right, and by which configs tasks were assigned last."""

    topology_epoch: int = 0
    assignment_configs: Mapping[str, str] = {}


class StreamsGroup(ModernGroup[StreamsMember, TaskRoles]):
    type = GroupType.STREAMS
    protocol_type = STREAMS_PROTOCOL
    expires_from_commit = True

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        super().__init__(group_id, timeline)
        self._topology: TimelineDict[str, Topology] = TimelineDict(timeline)
        self._validated: TimelineDict[str, Validated] = TimelineDict(timeline)
        self._active: TimelineDict[tuple[str, int], str] = TimelineDict(timeline)
        self._standby: TimelineDict[tuple[str, int], frozenset[str]] = TimelineDict(timeline)
        self._warmup: TimelineDict[tuple[str, int], frozenset[str]] = TimelineDict(timeline)
        # Not in records: what the topology comes to, who asked for a shutdown, and how often endpoints have changed.
        self._configured: ConfiguredTopology | None = None
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0

    @property
    def topology(self) -> Topology | None:
        return self._topology.get(_ONLY)

    @property
    def committed_topology(self) -> Topology | None:
        return self._topology.committed(_ONLY)

    @property
    def validated(self) -> Validated:
        return self._validated.get(_ONLY) or Validated()

    @property
    def configured(self) -> ConfiguredTopology | None:
        """None if it is not known, or was worked out for topics that turned out to be others."""
        configured = self._configured
        is_current = configured is not None and configured.metadata_hash == self.epochs.metadata_hash
        return configured if is_current else None

    def set_configured(self, configured: ConfiguredTopology) -> None:
        self._configured = configured

    @property
    def state(self) -> GroupState:
        topology, validated = self.committed_topology, self._validated.committed(_ONLY) or Validated()
        state = super().state
        if state is not GroupState.EMPTY and (topology is None or topology.epoch != validated.topology_epoch):
            return GroupState.NOT_READY
        return state

    def target(self, member_id: str) -> TaskRoles:
        return self.targets.get(member_id) or NOTHING

    def subscribes_to(self, topic: str) -> bool:
        topology = self.topology
        return not self.is_empty and topology is not None and topic in topology.readers

    # Who has a task, or has to give it back

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        return self._active.get((subtopology_id, partition))

    def standby_processes(self, subtopology_id: str, partition: int) -> Collection[str]:
        return self._standby.get((subtopology_id, partition)) or NOBODY

    def warmup_processes(self, subtopology_id: str, partition: int) -> Collection[str]:
        return self._warmup.get((subtopology_id, partition)) or NOBODY

    def _hold(self, tasks: AssignedTasks, process_id: str) -> None:
        for name, epochs in tasks.active.items():
            for at in epochs:
                if self._active.get((name, at)) != process_id:
                    self._active[name, at] = process_id
        for table, role in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for name, partitions in role.items():
                for at in partitions:
                    table[name, at] = (table.get((name, at)) or NOBODY) | {process_id}

    def _release(self, tasks: AssignedTasks, process_id: str, stays: ActiveTasks = NO_ACTIVE_TASKS) -> None:
        """`stays` is what the process keeps: thousands of tasks, of which few move.

        After compaction records may come in another order: a task may be with another process already.
        """
        for name, epochs in tasks.active.items():
            kept = stays.get(name, {})
            for at in epochs:
                if at not in kept and self._active.get((name, at)) == process_id:
                    self._active.pop((name, at))
        for table, role in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for name, partitions in role.items():
                for at in partitions:
                    left = (table.get((name, at)) or NOBODY) - {process_id}
                    if left:
                        table[name, at] = left
                    else:
                        table.pop((name, at))

    # Replay

    def replay(self, record: CoordinatorRecord) -> None:
        """The tombstone of the group itself, which removes it, is the shard's matter."""
        key, value = record.key, record.value
        if isinstance(key, wire.StreamsGroupMetadataKey):
            if isinstance(value, wire.StreamsGroupMetadataValue):
                self._replay_epoch(value)
        elif isinstance(key, wire.StreamsGroupTopologyKey):
            assert value is None or isinstance(value, wire.StreamsGroupTopologyValue)
            self._replay_topology(value)
        elif isinstance(key, wire.StreamsGroupMemberMetadataKey):
            assert value is None or isinstance(value, wire.StreamsGroupMemberMetadataValue)
            self._replay_member(key.member_id, value)
        elif isinstance(key, wire.StreamsGroupTargetAssignmentMetadataKey):
            if isinstance(value, wire.StreamsGroupTargetAssignmentMetadataValue):
                self.set_epochs(assignment=value.assignment_epoch, assigned_ms=value.assignment_timestamp)
            else:
                self.set_epochs(assignment=NO_ASSIGNMENT_EPOCH, assigned_ms=0)
        elif isinstance(key, wire.StreamsGroupTargetAssignmentMemberKey):
            assert value is None or isinstance(value, wire.StreamsGroupTargetAssignmentMemberValue)
            self.set_target(key.member_id, None if value is None else _target(value))
        elif isinstance(key, wire.StreamsGroupCurrentMemberAssignmentKey):
            assert value is None or isinstance(value, wire.StreamsGroupCurrentMemberAssignmentValue)
            self._replay_current(key.member_id, value)

    def _replay_epoch(self, value: wire.StreamsGroupMetadataValue) -> None:
        self.set_epochs(group=value.epoch, metadata_hash=value.metadata_hash)
        configs = {each.key: each.value for each in value.last_assignment_configs or ()}
        self._validated[_ONLY] = Validated(value.validated_topology_epoch, configs)

    def _replay_topology(self, value: wire.StreamsGroupTopologyValue | None) -> None:
        old = self.topology
        new = None if value is None else Topology(value)
        if new is None:
            self._topology.pop(_ONLY)
        else:
            self._topology[_ONLY] = new
        self.count_names(old.required_topics if old else (), new.required_topics if new else ())

    def _replay_member(self, member_id: str, value: wire.StreamsGroupMemberMetadataValue | None) -> None:
        old = self.members.get(member_id)
        if value is not None:
            self._update(old, (old or StreamsMember(id=member_id)).described_by(value))
        elif old is not None:
            self._release(old.assigned, old.process_id)
            self._release(old.revoking, old.process_id)
            self.remove_member(member_id)
            if self.is_empty:
                self.shutdown_requested_by = None

    def _replay_current(self, member_id: str, value: wire.StreamsGroupCurrentMemberAssignmentValue | None) -> None:
        old = self.members.get(member_id)
        if value is not None:
            self._update(old, (old or StreamsMember(id=member_id)).assigned_by(value))
        elif old is not None:
            self._update(old, old.without_tasks())

    def _update(self, old: StreamsMember | None, new: StreamsMember) -> None:
        if old is not None:
            stays = new.assigned.active if old.process_id == new.process_id else NO_ACTIVE_TASKS
            self._release(old.assigned, old.process_id, stays)
            self._release(old.revoking, old.process_id)
        self.members[new.id] = new
        self._hold(new.assigned, new.process_id)
        self._hold(new.revoking, new.process_id)

    # Offsets and removal

    def check_partition(self, member_id: str, epoch: int, topic: str, topic_id: Uuid | None, partition: int) -> None:
        member, topology = self.member(member_id), self.topology
        if topology is None:
            raise self.stale(member, "Topology is not available for offset commit validation.")
        subtopology_id = topology.readers.get(topic)
        if subtopology_id is None:
            raise self.stale(member, f"Topic {topic} is not in the topology.")
        since, task = member.assigned_in(subtopology_id, partition), f"{subtopology_id}-{partition}"
        if since is None:
            raise self.stale(member, f"Task {task} is not assigned or pending revocation for member.")
        if epoch < since:
            raise self.stale(
                member, f"Received member epoch {epoch} is older than assignment epoch {since} for task {task}."
            )

    def tombstones(self) -> list[CoordinatorRecord]:
        return group_tombstones(self.id, self.members)


def _target(value: wire.StreamsGroupTargetAssignmentMemberValue) -> TaskRoles:
    return TaskRoles(tasks_of(value.active_tasks), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks))
