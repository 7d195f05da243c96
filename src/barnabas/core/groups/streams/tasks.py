"""Tasks of a topology: a subtopology and a partition. Members have them by subtopology, in three roles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

Tasks = Mapping[str, frozenset[int]]
# Active tasks with the epoch in which the member got each.
ActiveTasks = Mapping[str, Mapping[int, int]]
NO_TASKS: Tasks = {}
NO_ACTIVE_TASKS: ActiveTasks = {}


class TaskRoles(NamedTuple):
    """As a target, or as a member says that it owns them."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class AssignedTasks(NamedTuple):
    """As a member has them, or has to give them back."""

    active: ActiveTasks = NO_ACTIVE_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def shares_any_with(self, owned: TaskRoles) -> bool:
        return (
            _overlap(owned.active, self.active)
            or _overlap(owned.standby, self.standby)
            or _overlap(owned.warmup, self.warmup)
        )

    def contains(self, owned: TaskRoles) -> bool:
        return (
            _contains(self.active, owned.active)
            and _contains(self.standby, owned.standby)
            and _contains(self.warmup, owned.warmup)
        )

    @property
    def without_epochs(self) -> TaskRoles:
        return TaskRoles({each: frozenset(epochs) for each, epochs in self.active.items()}, self.standby, self.warmup)


NOTHING = TaskRoles()
NOTHING_ASSIGNED = AssignedTasks()


def tasks_of(listed: Iterable[Any]) -> dict[str, frozenset[int]]:
    """Of records and requests, whose entries have `subtopology_id` and `partitions`."""
    found: dict[str, frozenset[int]] = {}
    for each in listed:
        found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | frozenset(each.partitions)
    return found


def _overlap(some: Mapping[str, Collection[int]], others: Mapping[str, Collection[int]]) -> bool:
    return any(partition in others.get(each, ()) for each, partitions in some.items() for partition in partitions)


def _contains(all_tasks: Mapping[str, Collection[int]], some: Mapping[str, Collection[int]]) -> bool:
    return all(
        each in all_tasks and all(partition in all_tasks[each] for partition in partitions)
        for each, partitions in some.items()
    )
