"""A group's way from one generation to the next: who is waited for, for how long, and what happens then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.kinds import GroupsOfKind
from barnabas.core.groups.records import group_record
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.state import ClassicGroup, Phase, answer_join, answer_sync
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse

# Whoever is told of a new generation has this long to ask for its part, even with a rebalance timeout of 0.
SYNC_MIN_MS = 500


class Outcome(NamedTuple):
    """What has to be written because of what was done to a group."""

    records: Sequence[CoordinatorRecord] = ()
    decided: Callable[[KafkaError | None], None] | None = None


class Rebalance:
    def __init__(
        self,
        groups: GroupsOfKind[ClassicGroup],
        timers: Timers,
        settings: Callable[[], GroupSettings],
        clock: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._timers = timers
        self._settings = settings
        self._clock = clock

    # The join phase

    def begin_or_complete(self, group: ClassicGroup) -> Outcome:
        """A member has come or changed."""
        return self.complete_if_all_joined(group) if group.phase is Phase.PREPARING_REBALANCE else self.begin(group)

    def begin(self, group: ClassicGroup) -> Outcome:
        if group.phase is Phase.COMPLETING_REBALANCE:
            self._distribute({}, group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._timers.cancel(("sync", group.id))
        if group.is_empty:
            # More members are likely to come soon, and each would cost another rebalance.
            delay_ms = self._settings().initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._wait_for_members(group, delay_ms, remaining_ms)
            group.move_to(Phase.PREPARING_REBALANCE, self._clock())
            return Outcome()
        group.move_to(Phase.PREPARING_REBALANCE, self._clock())
        if group.have_all_joined:
            return self._complete(group)
        self._wait_for_join(group)
        return Outcome()

    def complete_if_all_joined(self, group: ClassicGroup) -> Outcome:
        is_initial = group.previous_phase is Phase.EMPTY
        if group.phase is Phase.PREPARING_REBALANCE and not is_initial and group.have_all_joined:
            return self._complete(group)
        return Outcome()

    def _wait_for_join(self, group: ClassicGroup) -> None:
        self._timers.schedule(("join", group.id), group.rebalance_timeout_ms, partial(self._join_is_over, group))

    def _wait_for_members(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        due = partial(self._initial_delay_is_over, group, delay_ms, remaining_ms)
        self._timers.schedule(("join", group.id), delay_ms, due)

    def _initial_delay_is_over(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> Decision[None] | None:
        if not self._is_alive(group):
            return None
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            next_delay_ms = min(self._settings().initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_members(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            return None
        return _decision(self._complete(group))

    def _join_is_over(self, group: ClassicGroup) -> Decision[None] | None:
        return _decision(self._complete(group)) if self._is_alive(group) else None

    def _is_alive(self, group: ClassicGroup) -> bool:
        return self._groups.get(group.id) is group and group.phase is not Phase.DEAD

    def _complete(self, group: ClassicGroup) -> Outcome:
        """The next generation is of those who have joined; a static member that has not may still come back."""
        self._timers.cancel(("join", group.id))
        for member in [each for each in group.members.values() if each.joining is None and each.instance_id is None]:
            group.remove(member.id)
            self._timers.cancel(("session", group.id, member.id))
        if group.members and not group.elect_leader():
            self._wait_for_join(group)
            return Outcome()
        group.next_generation(self._clock())
        if group.is_empty:
            return Outcome([group_record(group, {})])
        for member in group.members.values():
            answer_join(member, group.join_response(member))
            self.expect(group, member.id, member.session_timeout_ms)
            member.is_new = False
            group.pending_sync.add(member.id)
        due = partial(self._sync_is_over, group, group.generation_id)
        self._timers.schedule(("sync", group.id), max(group.rebalance_timeout_ms, SYNC_MIN_MS), due)
        return Outcome()

    # The assignment

    def assign(self, group: ClassicGroup, given: dict[str, bytes]) -> Outcome:
        """The leader's assignment, which counts once it is committed and the group has not moved on meanwhile."""
        assignment = {member_id: bytes(given.get(member_id, b"")) for member_id in group.members}
        generation_id = group.generation_id

        def decided(error: KafkaError | None) -> None:
            if group.phase is not Phase.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return
            if error is None:
                self._distribute(assignment, group, ErrorCode.NONE)
                group.move_to(Phase.STABLE, self._clock())
            else:
                self._distribute({}, group, error.code)
                self.begin(group)

        return Outcome([group_record(group, assignment)], decided)

    def _distribute(self, assignment: dict[str, bytes], group: ClassicGroup, error: ErrorCode) -> None:
        succeeded = error is ErrorCode.NONE
        for member in group.members.values():
            member.assignment = assignment.get(member.id, b"")
            response = SyncGroupResponse(
                error_code=error,
                protocol_type=group.protocol_type if succeeded else None,
                protocol_name=group.protocol_name if succeeded else None,
                assignment=member.assignment,
            )
            if answer_sync(member, response):
                self.expect(group, member.id, member.session_timeout_ms)

    def has_synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._timers.cancel(("sync", group.id))

    def _sync_is_over(self, group: ClassicGroup, generation_id: int) -> Decision[None] | None:
        waits = group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE) and group.generation_id == generation_id
        if not self._is_alive(group) or not waits or not group.pending_sync:
            return None
        for member_id in list(group.pending_sync):
            self.remove(group, member_id)
        return _decision(self.begin(group))

    # Members that go

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Unless it is heard of within this time, the member is out."""
        self._timers.schedule(("session", group.id, member_id), timeout_ms, partial(self._expire, group, member_id))

    def remove(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(("session", group.id, member_id))
        member = group.members.get(member_id)
        if member is not None:
            # If its client is still there it joins again under another id.
            answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)

    def _expire(self, group: ClassicGroup, member_id: str) -> Decision[None] | None:
        if not self._is_alive(group):
            return None
        member = group.members.get(member_id)
        if member is None and member_id not in group.pending:
            return None
        if member is not None and member.is_waiting:
            return None
        self.remove(group, member_id)
        if group.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE) and member is not None:
            return _decision(self.begin(group))
        if group.phase is Phase.PREPARING_REBALANCE and group.have_all_joined:
            return _decision(self._complete(group))
        return None


def _decision(outcome: Outcome) -> Decision[None] | None:
    return Decision(outcome.records, None, outcome.decided) if outcome.records else None
