"""Heartbeats of a streams group: joining, staying, reconciling and leaving are one request.

A heartbeat goes through these steps, each of which may add records: the member's own description; the topology, which
the first member brings; whether the topics that it needs are there (`topology`); the group epoch, if any of this has
changed; the target assignment, if the epoch is ahead of it and nothing delays it; and the member's next step to its
target (`reconciliation`). The answer says by statuses what keeps the application from working, and which internal
topics are to be created.

A group that gets its first member waits a while for others before it assigns. A member that falls silent, or does not
give tasks back in time, is removed by a timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.java_order import java_ordered
from barnabas.core.groups.streams.assignor import AssignableMember, assign
from barnabas.core.groups.streams.endpoints import partitions_by_endpoint
from barnabas.core.groups.streams.group import StreamsGroup
from barnabas.core.groups.streams.member import Endpoint, MemberState, StreamsMember
from barnabas.core.groups.streams.reconciliation import Reconciliation
from barnabas.core.groups.streams.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
    topology_record,
)
from barnabas.core.groups.streams.requests import check_tasks, owned_tasks, topology_of
from barnabas.core.groups.streams.settings import StreamsSettings
from barnabas.core.groups.streams.tasks import NOTHING, TaskRoles
from barnabas.core.groups.streams.topology import ConfiguredTopology, StatusCode, Topology, configure
from barnabas.core.groups.topic_hashes import group_hash
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic
from barnabas.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

T = TypeVar("T")

JOINING = 0
NO_TIMEOUT = -1
NO_TOPOLOGY_EPOCH = -1
# When a removal that could not be written is tried again.
RETRY_MS = 500


class HeartbeatAnswer(NamedTuple):
    response: StreamsGroupHeartbeatResponse
    to_create: Mapping[str, CreatableTopic] = {}


@dataclass(slots=True)
class Beat:
    """How far a heartbeat has come."""

    group: StreamsGroup
    before: StreamsMember
    member: StreamsMember
    owned: TaskRoles | None
    records: list[CoordinatorRecord]
    statuses: list[Status] = field(default_factory=list)
    bumps_epoch: bool = False

    def tell(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(Status(status_code=code, status_detail=detail))


class StreamsGroups:
    def __init__(
        self,
        find: Callable[[str], StreamsGroup | None],
        timers: Timers,
        settings: Callable[[str], StreamsSettings],
        clock: Callable[[], int],
        cluster: Callable[[], Cluster],
    ) -> None:
        """`find` knows the streams groups of the shard, `settings` what counts for a group."""
        self._find = find
        self._timers = timers
        self.settings = settings
        self._clock = clock
        self._cluster = cluster

    # Heartbeats

    def heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        group: StreamsGroup | None,
        records: list[CoordinatorRecord],
    ) -> Decision[HeartbeatAnswer]:
        """`group` is None if it is to be made; `records` are those that made room for it."""
        is_first = group is None and not records
        if group is None:
            group = StreamsGroup(request.group_id, Timeline())
        settings = self.settings(group.id)
        if request.member_epoch == JOINING and len(group.members) >= settings.max_size:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {settings.max_size} members.",
            )
        owned = owned_tasks(request)
        before = _member(group, request, owned)
        beat = Beat(group, before, _updated(before, request, client_id, client_host), owned, records)
        if beat.member != before:
            records.append(member_record(group.id, beat.member))
            beat.bumps_epoch = True
        topology = _topology(beat, request)
        configured = self._configure(beat, topology)
        epoch = self._next_epoch(beat, topology, configured)
        self._delay_first_assignment(group)
        target_epoch, target = self._next_target(beat, epoch, configured)
        self._reconcile(beat, target_epoch, target)
        self.expect(group.id, beat.member.id, settings.session_timeout_ms)
        if request.shutdown_application:
            _request_shutdown(group, request.member_id)
        response = self._response(beat, request, configured, is_settled=target_epoch >= epoch)
        # A group that is made by this very request keeps no count of endpoints yet.
        response.endpoint_information_epoch = 0 if is_first else group.endpoint_epoch
        answer = HeartbeatAnswer(response, configured.to_create)
        if before.state is MemberState.UNREVOKED_TASKS and records:
            return Decision(records, answer, partial(self._went_on, group.id, before.id))
        return Decision(records, answer)

    def _went_on(self, group_id: str, member_id: str, error: KafkaError | None) -> None:
        if error is not None:  # it still has to give tasks back, and the timer for that was stopped
            self._expect_revocation(group_id, member_id)

    def _configure(self, beat: Beat, topology: Topology) -> ConfiguredTopology:
        """What the topology comes to with the topics as they are; worked out again only if they have changed."""
        group = beat.group
        configured, is_new = group.configured, group.topology is None
        if configured is not None and not is_new and not group.needs_refresh:
            return configured
        metadata_hash = group_hash(topology.required_topics, self._cluster())
        if metadata_hash != group.epochs.metadata_hash:
            beat.bumps_epoch = True
        elif configured is not None and not is_new:
            return configured
        configured = configure(topology, metadata_hash, self._cluster())
        group.set_configured(configured)
        return configured

    def _next_epoch(self, beat: Beat, topology: Topology, configured: ConfiguredTopology) -> int:
        group = beat.group
        validated_epoch = NO_TOPOLOGY_EPOCH
        if configured.is_ready:
            validated_epoch = topology.epoch
            check_tasks(beat.owned, configured)
        configs = self.settings(group.id).assignment_configs
        validated = group.validated
        if validated_epoch != validated.topology_epoch or configs != validated.assignment_configs:
            beat.bumps_epoch = True
        epoch = group.epochs.group + beat.bumps_epoch
        if beat.bumps_epoch:
            beat.records.append(epoch_record(group.id, epoch, configured.metadata_hash, validated_epoch, configs))
        group.refreshed(epoch)
        return epoch

    # The target assignment

    def _delay_first_assignment(self, group: StreamsGroup) -> None:
        delay_ms, key = self.settings(group.id).initial_rebalance_delay_ms, _initial_key(group.id)
        if group.is_empty and delay_ms > 0 and not self._timers.is_scheduled(key):
            self._timers.schedule(key, delay_ms, partial(self._assign_first, group.id))

    def _assign_first(self, group_id: str) -> Decision[None] | None:
        group = self._find(group_id)
        configured = None if group is None else group.configured
        if group is None or configured is None or group.is_empty or group.epochs.group <= group.epochs.assignment:
            return None
        replicas = self.settings(group_id).num_standby_replicas
        records: list[CoordinatorRecord] = []
        self._assign(group, {each.id: each for each in group.members.values()}, configured, replicas, records)
        return Decision(records, None)

    def _next_target(self, beat: Beat, epoch: int, configured: ConfiguredTopology) -> tuple[int, TaskRoles]:
        group, epochs = beat.group, beat.group.epochs
        settings = self.settings(group.id)
        if self._timers.is_scheduled(_initial_key(group.id)):
            beat.tell(
                StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
            )
            return epochs.assignment, NOTHING
        if epochs.assignment >= epoch:
            return epochs.assignment, group.target(beat.member.id)
        interval_ms = settings.assignment_interval_ms
        if epochs.assigned_ms and interval_ms and self._clock() < epochs.assigned_ms + interval_ms:
            beat.tell(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
            return epochs.assignment, group.target(beat.member.id)
        members = {each.id: each for each in group.members.values()} | {beat.member.id: beat.member}
        targets = self._assign(group, members, configured, settings.num_standby_replicas, beat.records, epoch)
        return epoch, targets[beat.member.id]

    def _assign(
        self,
        group: StreamsGroup,
        members: Mapping[str, StreamsMember],
        configured: ConfiguredTopology,
        standby_replicas: int,
        records: list[CoordinatorRecord],
        epoch: int | None = None,
    ) -> dict[str, TaskRoles]:
        """For the group epoch, unless it is to be another. While the topology is not ready nobody has tasks."""
        targets = dict.fromkeys(members, NOTHING)
        if configured.is_ready and configured.subtopologies is not None:
            specs = {each.id: AssignableMember(each.process_id, group.target(each.id)) for each in members.values()}
            targets = assign(specs, configured.subtopologies, standby_replicas)
        for member_id in java_ordered(members):
            if targets[member_id] != group.targets.get(member_id):
                records.append(target_record(group.id, member_id, targets[member_id]))
        records.append(target_epoch_record(group.id, group.epochs.group if epoch is None else epoch, self._clock()))
        return targets

    def _reconcile(self, beat: Beat, target_epoch: int, target: TaskRoles) -> None:
        group, member = beat.group, beat.member
        if member.is_reconciled_to(target_epoch):
            return
        updated = Reconciliation(member, target, target_epoch, beat.owned, group).step()
        if updated == member:
            return
        beat.member = updated
        beat.records.append(current_record(group.id, updated))
        if updated.state is MemberState.UNREVOKED_TASKS:
            self._time_revocation(group.id, updated)
        else:
            self._timers.cancel(("rebalance", group.id, member.id))

    # The answer

    def _response(
        self, beat: Beat, request: StreamsGroupHeartbeatRequest, configured: ConfiguredTopology, *, is_settled: bool
    ) -> StreamsGroupHeartbeatResponse:
        group, member = beat.group, beat.member
        response = StreamsGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings(group.id).heartbeat_interval_ms,
            status=beat.statuses,
        )
        has_changed = request.member_epoch == JOINING or member.assigned != beat.before.assigned
        # A member that owns other tasks than it should may have missed the answer that said so. While its assignment is
        # delayed it is told nothing: it would take the old tasks for the new ones.
        has_missed = is_settled and beat.owned is not None and beat.owned != member.assigned.without_epochs
        if has_changed or has_missed:
            response.active_tasks = _listed(member.assigned.active)
            response.standby_tasks = _listed(member.assigned.standby)
            response.warmup_tasks = _listed(member.assigned.warmup)
            if has_changed and member.user_endpoint is not None:
                group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            others = [each for each in group.members.values() if each.id != member.id]
            found = partitions_by_endpoint([*others, member], configured, self._cluster())
            response.partitions_by_user_endpoint = found
        if configured.problem is not None:
            beat.tell(*configured.problem)
        if group.shutdown_requested_by is not None:
            beat.tell(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_requested_by} encountered a fatal error and requested a shutdown"
                " for the entire application.",
            )
        return response

    # Leaving

    def leave(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Decision[HeartbeatAnswer]:
        if request.shutdown_application:
            _request_shutdown(group, request.member_id)
        response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return self._remove(group, group.member(request.member_id), HeartbeatAnswer(response))

    def _remove(self, group: StreamsGroup, member: StreamsMember, response: T) -> Decision[T]:
        epochs, validated = group.epochs, group.validated
        records = [
            *member_tombstones(group.id, member.id),
            epoch_record(
                group.id,
                epochs.group + 1,
                epochs.metadata_hash,
                validated.topology_epoch,
                validated.assignment_configs,
            ),
        ]
        for kind in ("session", "rebalance"):
            self._timers.cancel((kind, group.id, member.id))
        return Decision(records, response, partial(self._removed, group.id, member.id))

    def _removed(self, group_id: str, member_id: str, error: KafkaError | None) -> None:
        if error is not None:
            # It is still there: as nobody else will, the timer tries again.
            self.expect(group_id, member_id, RETRY_MS)
            self._expect_revocation(group_id, member_id)

    # Time

    def expect(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._timers.schedule(
            ("session", group_id, member_id), timeout_ms, partial(self._session_is_over, group_id, member_id)
        )

    def _session_is_over(self, group_id: str, member_id: str) -> Decision[None] | None:
        group = self._find(group_id)
        member = group.members.get(member_id) if group is not None else None
        return None if group is None or member is None else self._remove(group, member, None)

    def _time_revocation(self, group_id: str, member: StreamsMember) -> None:
        due = partial(self._rebalance_is_over, group_id, member.id, member.epoch)
        self._timers.schedule(("rebalance", group_id, member.id), member.rebalance_timeout_ms, due)

    def _expect_revocation(self, group_id: str, member_id: str) -> None:
        """After a write that failed: the timer was stopped, or is that of an epoch that never was."""
        group = self._find(group_id)
        member = group.members.get(member_id) if group is not None else None
        if member is not None and member.state is MemberState.UNREVOKED_TASKS:
            self._time_revocation(group_id, member)

    def _rebalance_is_over(self, group_id: str, member_id: str, epoch: int) -> Decision[None] | None:
        group = self._find(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is None or member is None or member.epoch != epoch:
            return None
        # The write that told it to give tasks back may have failed.
        if member.state is not MemberState.UNREVOKED_TASKS:
            return None
        return self._remove(group, member, None)

    def forget(self, group_id: str) -> None:
        """The group goes."""
        self._timers.cancel(_initial_key(group_id))

    def loaded(self, groups: Iterable[StreamsGroup]) -> None:
        for group in groups:
            for member in group.members.values():
                self.expect(group.id, member.id, self.settings(group.id).session_timeout_ms)
                if member.state is MemberState.UNREVOKED_TASKS:
                    self._time_revocation(group.id, member)


def _initial_key(group_id: str) -> tuple[str, str]:
    return ("initial rebalance", group_id)


def _request_shutdown(group: StreamsGroup, member_id: str) -> None:
    if group.shutdown_requested_by is None:
        group.shutdown_requested_by = member_id


def _member(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: TaskRoles | None) -> StreamsMember:
    if request.member_epoch == JOINING:
        return group.members.get(request.member_id) or StreamsMember(id=request.member_id)
    member = group.member(request.member_id)
    _check_epoch(member, request.member_epoch, owned)
    return member


def _check_epoch(member: StreamsMember, epoch: int, owned: TaskRoles | None) -> None:
    """A member may be one epoch behind, if it missed an answer and owns no more than it was given."""
    if epoch == member.epoch:
        return
    missed_an_answer = epoch < member.epoch and epoch == member.previous_epoch
    if missed_an_answer and owned is not None and member.assigned.contains(owned):
        return
    than = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {than} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _updated(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str
) -> StreamsMember:
    """What the request does not say stays as it was."""
    endpoint, tags, topology = request.user_endpoint, request.client_tags, request.topology
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=member.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else {each.key: each.value for each in tags},
        client_id=client_id,
        client_host=client_host,
    )


def _topology(beat: Beat, request: StreamsGroupHeartbeatRequest) -> Topology:
    """The group's, or the first that a member brings. It does not change: an application with another is refused."""
    known = beat.group.topology
    brought = None if request.topology is None else topology_of(request.topology)
    if known is None:
        if brought is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Streams group {beat.group.id} has no topology.")
        beat.records.append(topology_record(beat.group.id, brought.value))
        return brought
    if brought is not None and known.epoch <= brought.epoch and not known.is_same_as(brought):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    if beat.member.topology_epoch < known.epoch:
        beat.tell(
            StatusCode.STALE_TOPOLOGY,
            f"The member's topology epoch {beat.member.topology_epoch} is behind the group's topology epoch"
            f" {known.epoch}.",
        )
    return known


def _listed(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in java_ordered(tasks)]
