"""A member's way from the tasks it has to those it should have.

    STABLE            The member has its target. If the target's epoch is ahead it begins to move.
    UNREVOKED_TASKS   It has to give tasks back, and stays behind until it reports that it no longer owns them. If it
                      does not within the rebalance timeout, it is removed.
    UNRELEASED_TASKS  It is in the target's epoch, and waits for tasks that others have not given back yet.

An active task is with one member at a time. A process has a task in one role only, since its state is kept in one
directory: a task that any member of the process still has, in whatever role, is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from barnabas.core.groups.streams.member import MemberState, StreamsMember
from barnabas.core.groups.streams.tasks import NOTHING_ASSIGNED, AssignedTasks, TaskRoles, Tasks
from barnabas.wire.errors import ErrorCode, KafkaError

NO_PARTITIONS: frozenset[int] = frozenset()


class Holders(Protocol):
    """Which processes have a task, or have to give it back."""

    def active_process(self, subtopology_id: str, partition: int) -> str | None: ...

    def standby_processes(self, subtopology_id: str, partition: int) -> Collection[str]: ...

    def warmup_processes(self, subtopology_id: str, partition: int) -> Collection[str]: ...


class Difference(NamedTuple):
    """Of one role: what stays, what is to be given back, what is free to be had, and whether something is not."""

    kept: dict[str, frozenset[int]]
    revoking: dict[str, frozenset[int]]
    free: dict[str, frozenset[int]]
    waits: bool


class Reconciliation:
    def __init__(
        self,
        member: StreamsMember,
        target: TaskRoles,
        target_epoch: int,
        owned: TaskRoles | None,
        holders: Holders,
    ) -> None:
        """`owned` is None if the member did not say what it owns: as before."""
        self._member = member
        self._target = target
        self._target_epoch = target_epoch
        self._owned = owned
        self._holders = holders

    def step(self) -> StreamsMember:
        member = self._member
        if member.state is MemberState.STABLE:
            return member if member.epoch == self._target_epoch else self._move(member.epoch)
        if member.state is MemberState.UNREVOKED_TASKS:
            return member if self._still_owns(member.revoking) else self._move(member.epoch + 1)
        if member.state is MemberState.UNRELEASED_TASKS:
            return self._move(member.epoch)
        if self._owned is None or not self._owned.is_empty:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        return self._move(self._target_epoch)

    def _still_owns(self, revoking: AssignedTasks) -> bool:
        return self._owned is None or revoking.shares_any_with(self._owned)

    def _move(self, epoch: int) -> StreamsMember:
        member, target = self._member, self._target
        had = member.assigned.active
        active = _difference(had, target.active, self._is_held)
        standby = _difference(member.assigned.standby, target.standby, self._is_held_by_own_process)
        warmup = _difference(member.assigned.warmup, target.warmup, self._is_held_by_own_process)
        kept = {each: {index: had[each][index] for index in active.kept[each]} for each in active.kept}
        revoking = AssignedTasks(
            {each: {index: had[each][index] for index in active.revoking[each]} for each in active.revoking},
            standby.revoking,
            warmup.revoking,
        )
        if not revoking.is_empty and self._still_owns(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_TASKS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=AssignedTasks(kept, standby.kept, warmup.kept),
                revoking=revoking,
            )
        for each, partitions in active.free.items():
            kept[each] = {**kept.get(each, {}), **dict.fromkeys(partitions, self._target_epoch)}
        waits = active.waits or standby.waits or warmup.waits
        return replace(
            member,
            state=MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
            epoch=self._target_epoch,
            previous_epoch=member.epoch,
            assigned=AssignedTasks(kept, _merged(standby), _merged(warmup)),
            revoking=NOTHING_ASSIGNED,
        )

    def _is_held(self, subtopology_id: str, partition: int) -> bool:
        process_id, holders = self._member.process_id, self._holders
        return (
            holders.active_process(subtopology_id, partition) is not None
            or process_id in holders.standby_processes(subtopology_id, partition)
            or process_id in holders.warmup_processes(subtopology_id, partition)
        )

    def _is_held_by_own_process(self, subtopology_id: str, partition: int) -> bool:
        process_id, holders = self._member.process_id, self._holders
        return (
            holders.active_process(subtopology_id, partition) == process_id
            or process_id in holders.standby_processes(subtopology_id, partition)
            or process_id in holders.warmup_processes(subtopology_id, partition)
        )


def _difference(
    current: Mapping[str, Collection[int]], target: Tasks, is_held: Callable[[str, int], bool]
) -> Difference:
    difference = Difference({}, {}, {}, waits=False)
    waits = False
    for each in dict.fromkeys([*target, *current]):
        has, wanted = frozenset(current.get(each, ())), target.get(each, NO_PARTITIONS)
        missing = wanted - has
        free = frozenset(index for index in missing if not is_held(each, index))
        waits = waits or len(free) < len(missing)
        for table, partitions in (
            (difference.kept, has & wanted),
            (difference.revoking, has - wanted),
            (difference.free, free),
        ):
            if partitions:
                table[each] = partitions
    return difference._replace(waits=waits)


def _merged(role: Difference) -> dict[str, frozenset[int]]:
    return {
        each: role.kept.get(each, NO_PARTITIONS) | role.free.get(each, NO_PARTITIONS)
        for each in dict.fromkeys([*role.kept, *role.free])
    }
