"""Joining, staying in and leaving a classic group: requests and timers in, records and answers out.

What is decided about the group is done to it at once (see `state`); what outlives the process is in the records of the
decision. Three timers drive a group: the session of each member, put off by its heartbeats; the join phase of a
rebalance; and the time within which everybody has to fetch its assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.kinds import GroupsOfKind
from barnabas.core.groups.rebalance import Outcome, Rebalance
from barnabas.core.groups.records import group_record
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.state import ClassicGroup, Member, Phase, Protocols, answer_join, answer_sync
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Caller(NamedTuple):
    """Who sends a request, and what its version of JoinGroup can do."""

    client_id: str
    client_host: str
    must_know_its_id: bool = True
    can_skip_assignment: bool = True


class Membership:
    def __init__(
        self,
        groups: GroupsOfKind[ClassicGroup],
        timers: Timers,
        settings: Callable[[], GroupSettings],
        clock: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        """`new_id` gives what makes a member's id unique, `clock` the time of day in milliseconds."""
        self._groups = groups
        self._timers = timers
        self._settings = settings
        self._clock = clock
        self._new_id = new_id
        self.rebalance = Rebalance(groups, timers, settings, clock)
        # Groups that are about to exist: their first record is being decided.
        self.created: dict[str, ClassicGroup] = {}

    # Joining

    def join(
        self, request: JoinGroupRequest, caller: Caller, before: Sequence[CoordinatorRecord] = ()
    ) -> Decision[JoinGroupResponse]:
        """`before` are records that make room for the group, of one without members that was of another kind."""
        group = None if before else self._groups.get(request.group_id)
        if group is None and request.member_id:
            return _refuse_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        is_new_group = group is None
        if group is None:
            group = ClassicGroup(request.group_id, self._clock())
        promise: Promise[JoinGroupResponse] = Promise()
        outcome = self._join(group, request, caller, promise)
        if is_new_group and not outcome.records:
            self.created[group.id] = group
            record = group_record(ClassicGroup(group.id, group.phase_since_ms), {})
            outcome = Outcome([record], lambda error: self._group_written(group, promise, error))
        return Decision([*before, *outcome.records], promise, outcome.decided)

    def _group_written(
        self, group: ClassicGroup, promise: Promise[JoinGroupResponse], error: KafkaError | None
    ) -> None:
        if error is not None:
            self.give_up(group, error.code)
            promise.set(JoinGroupResponse(error_code=error.code))

    def _join(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, promise: Promise[JoinGroupResponse]
    ) -> Outcome:
        member_id = request.member_id
        names = [each.name for each in request.protocols]
        if not self._has_room(group, member_id):
            group.remove(member_id)
            promise.set(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, names):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            promise.set(JoinGroupResponse(member_id=member_id, error_code=error))
        elif not member_id:
            return self._join_unknown(group, request, caller, promise)
        elif member_id in group.pending:
            return self._add(group, member_id, request, caller, promise)
        else:
            try:
                group.check_member(member_id, request.group_instance_id)
            except KafkaError as error:
                promise.set(JoinGroupResponse(member_id=member_id, protocol_name=None, error_code=error.code))
                return Outcome()
            return self._rejoin(group, group.members[member_id], request, promise)
        return Outcome()

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        max_size = self._settings().max_size
        if len(group.members) < max_size:
            return True
        if group.phase is Phase.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            return (member is not None and member.joining is not None) or len(group.joined) < max_size
        if group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
            return member_id in group.members or len(group.members) < max_size
        return True

    def _join_unknown(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, promise: Promise[JoinGroupResponse]
    ) -> Outcome:
        instance_id = request.group_instance_id
        member_id = f"{caller.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id is not None:
            known = group.static_members.get(instance_id)
            if known is not None:
                return self._replace(group, known, member_id, request, caller, promise)
        elif caller.must_know_its_id:
            group.pending.add(member_id)
            self.rebalance.expect(group, member_id, request.session_timeout_ms)
            promise.set(JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
            return Outcome()
        return self._add(group, member_id, request, caller, promise)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        caller: Caller,
        promise: Promise[JoinGroupResponse],
    ) -> Outcome:
        member = Member(
            id=member_id,
            instance_id=request.group_instance_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=protocols_of(request),
        )
        if group.phase is Phase.PREPARING_REBALANCE and group.previous_phase is Phase.EMPTY:
            group.new_member_added = True
        group.add(member, promise, request.protocol_type)
        self.rebalance.expect(group, member_id, self._settings().new_member_join_timeout_ms)
        return self.rebalance.begin_or_complete(group)

    def _rejoin(
        self, group: ClassicGroup, member: Member, request: JoinGroupRequest, promise: Promise[JoinGroupResponse]
    ) -> Outcome:
        changed = member.protocols != protocols_of(request)
        leads = group.leader == member.id
        if group.phase is Phase.PREPARING_REBALANCE:
            return self._update(group, member, request, promise)
        if group.phase is Phase.COMPLETING_REBALANCE:
            if changed:
                return self._update(group, member, request, promise)
            # The first answer may have been lost.
            promise.set(group.join_response(member))
        elif group.phase is Phase.STABLE:
            # A leader that joins again asks for a rebalance; a follower may have missed the last one.
            if leads or changed:
                return self._update(group, member, request, promise)
            promise.set(group.join_response(member))
        else:
            promise.set(JoinGroupResponse(member_id=member.id, error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return Outcome()

    def _update(
        self, group: ClassicGroup, member: Member, request: JoinGroupRequest, promise: Promise[JoinGroupResponse]
    ) -> Outcome:
        update_member(group, member, request, promise)
        return self.rebalance.begin_or_complete(group)

    # Static members

    def _replace(
        self,
        group: ClassicGroup,
        old_id: str,
        new_id: str,
        request: JoinGroupRequest,
        caller: Caller,
        promise: Promise[JoinGroupResponse],
    ) -> Outcome:
        old_leader = group.leader
        member = group.replace_static(old_id, new_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._timers.cancel(("session", group.id, old_id))
        update_member(group, member, request, promise)
        self.rebalance.expect(group, new_id, member.session_timeout_ms)
        if group.phase is Phase.COMPLETING_REBALANCE:
            # The leader may have assigned to the old id already.
            return self.rebalance.begin(group)
        if group.phase is not Phase.STABLE:
            return self.rebalance.complete_if_all_joined(group)
        if group.select_protocol() != group.protocol_name:
            return self.rebalance.begin_or_complete(group)

        def decided(error: KafkaError | None) -> None:
            if group.members.get(new_id) is not member or member.joining is not promise:
                return
            if error is not None:
                member.joining = None
                protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                group.set_protocols(member, protocols)
                restored = group.replace_static(new_id, old_id)
                self.rebalance.expect(group, old_id, restored.session_timeout_ms)
                promise.set(JoinGroupResponse(error_code=error.code))
            elif caller.can_skip_assignment:
                answer_join(member, group.join_response(member, skip_assignment=group.leader == new_id))
            else:
                # It must not take itself for the leader, or it would assign anew.
                response = group.join_response(member)
                response.leader, response.members = old_leader or "", []
                answer_join(member, response)

        return Outcome([group_record(group, {each.id: each.assignment for each in group.members.values()})], decided)

    # Fetching the assignment

    def sync(self, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        group = self._groups.get(request.group_id)
        if group is None or group.is_empty:
            return _refuse_sync(ErrorCode.UNKNOWN_MEMBER_ID)
        try:
            group.check_member(request.member_id, request.group_instance_id)
            group.check_generation(request.generation_id)
            check_protocol(group, request)
        except KafkaError as error:
            return _refuse_sync(error.code)
        member = group.members[request.member_id]
        if group.phase is Phase.PREPARING_REBALANCE:
            return _refuse_sync(ErrorCode.REBALANCE_IN_PROGRESS)
        self.rebalance.has_synced(group, member.id)
        if group.phase is Phase.STABLE:
            response = SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
            return Decision([], response)
        promise: Promise[SyncGroupResponse] = Promise()
        if member.syncing is not None:
            # Its own retry: the first connection is gone.
            answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = promise
        if group.leader != member.id:
            return Decision([], promise)
        outcome = self.rebalance.assign(group, {each.member_id: each.assignment for each in request.assignments})
        return Decision(outcome.records, promise, outcome.decided)

    # Staying and leaving

    def heartbeat(self, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        group = self._groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        member = group.members[request.member_id]
        self.rebalance.expect(group, member.id, member.session_timeout_ms)
        if group.phase is Phase.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return Decision([], HeartbeatResponse())

    def leave(self, request: LeaveGroupRequest) -> Decision[LeaveGroupResponse]:
        group = self._groups.get(request.group_id)
        if group is None:
            members = [_left(each, ErrorCode.UNKNOWN_MEMBER_ID) for each in request.members]
            return Decision([], LeaveGroupResponse(members=members))
        results = [self._leave(group, each) for each in request.members]
        response = LeaveGroupResponse(members=results)
        if all(each.error_code for each in results):
            return Decision([], response)
        outcome = Outcome()
        if group.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
            outcome = self.rebalance.begin(group)
        elif group.phase is Phase.PREPARING_REBALANCE:
            outcome = self.rebalance.complete_if_all_joined(group)
        return Decision(outcome.records, response, outcome.decided)

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> MemberResponse:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id:
            # An administrator removes a static member by its name.
            known = group.static_members.get(instance_id or "")
            if instance_id is None or known is None:
                return _left(identity, ErrorCode.UNKNOWN_MEMBER_ID)
            member_id = known
        elif member_id not in group.pending:
            try:
                group.check_member(member_id, instance_id)
            except KafkaError as error:
                return _left(identity, error.code)
        self.rebalance.remove(group, member_id)
        return _left(identity, ErrorCode.NONE)

    # Beginning and end of the shard

    def loaded(self) -> list[CoordinatorRecord]:
        records: list[CoordinatorRecord] = []
        for group in self._groups.values():
            for member in group.members.values():
                self.rebalance.expect(group, member.id, member.session_timeout_ms)
            if len(group.members) > self._settings().max_size:
                records += self.rebalance.begin(group).records
        return records

    def give_up(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Answers whoever waits for the group; it is of no use any more."""
        group.move_to(Phase.DEAD, self._clock())
        for member in group.members.values():
            answer_join(member, JoinGroupResponse(member_id=member.id, error_code=code))
            answer_sync(member, SyncGroupResponse(error_code=code))
        for member_id in [*group.members, *group.pending]:
            self._timers.cancel(("session", group.id, member_id))
        self._timers.cancel(("join", group.id))
        self._timers.cancel(("sync", group.id))


def protocols_of(request: JoinGroupRequest) -> Protocols:
    # The request's bytes are views of a buffer that is used again.
    return tuple((each.name, bytes(each.metadata)) for each in request.protocols)


def update_member(
    group: ClassicGroup, member: Member, request: JoinGroupRequest, promise: Promise[JoinGroupResponse]
) -> None:
    group.set_protocols(member, protocols_of(request))
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    if member.joining is not None:
        # Its own retry: the first connection is gone.
        answer_join(member, JoinGroupResponse(member_id=member.id, error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.joining = promise


def check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> None:
    for said, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if said is not None and known is not None and said != known:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _refuse_join(member_id: str, error: ErrorCode) -> Decision[JoinGroupResponse]:
    return Decision([], JoinGroupResponse(member_id=member_id, error_code=error))


def _refuse_sync(error: ErrorCode) -> Decision[SyncGroupResponse]:
    return Decision([], SyncGroupResponse(error_code=error))


def _left(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
