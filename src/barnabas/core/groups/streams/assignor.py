"""The sticky assignor: tasks stay where they are as far as the load allows it.

Members are threads of processes; a process with more members takes more tasks. An active task goes back to the member
that had it, else to one that had it as a standby, as long as that member has less than its share; the rest goes to the
least loaded process, and there to the least loaded member. Standby replicas of tasks with state follow the same way,
each to a process that does not have the task yet. If there is no such process the replica is left out.

It is Kafka's assignor, with its order of going through things: the same members get the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.core.groups.java_order import java_ordered
from barnabas.core.groups.java_queue import JavaPriorityQueue
from barnabas.core.groups.streams.tasks import TaskRoles
from barnabas.core.groups.streams.topology import ConfiguredSubtopology


class Task(NamedTuple):
    subtopology_id: str
    partition: int


class AssignableMember(NamedTuple):
    """A member with its process, and its part of the last target assignment."""

    process_id: str
    before: TaskRoles


class Place(NamedTuple):
    process_id: str
    member_id: str


class _Quota:
    """How many tasks a member should have at most; members that are full leave the rest to the others."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def note(self, count: int) -> None:
        """A member has so many tasks now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = self._share()


class _Process:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self._task_count = 0
        self._by_load: JavaPriorityQueue[str] | None = None

    @property
    def load(self) -> float:
        return self._task_count / len(self.counts)

    def add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self._by_load = None
        return self._add(member_id, task, is_active=is_active)

    def add_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        if len(self.counts) == 1:
            return self._add(next(iter(self.counts)), task, is_active=is_active)
        if self._by_load is None:
            self._by_load = JavaPriorityQueue(java_ordered(self.counts), self.counts.__getitem__)
        member_id = self._by_load.poll()
        assert member_id is not None
        count = self._add(member_id, task, is_active=is_active)
        self._by_load.add(member_id)
        return count

    def _add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self._task_count += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        self.counts[member_id] += 1
        return self.counts[member_id]


def assign(
    members: Mapping[str, AssignableMember], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replicas: int
) -> dict[str, TaskRoles]:
    return _Assignment(members, subtopologies, standby_replicas).run() if members else {}


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, AssignableMember],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_replicas: int,
    ) -> None:
        self._members = members
        self._replicas = standby_replicas
        self._tasks = [Task(name, at) for name, each in subtopologies.items() for at in range(each.tasks)]
        stateful = {name for name, each in subtopologies.items() if each.is_stateful}
        self._stateful = [task for task in self._tasks if task.subtopology_id in stateful]
        count = len(self._tasks)
        self._active_quota = _Quota(count, len(members))
        self._total_quota = _Quota(count + len(self._stateful) * standby_replicas, len(members))
        self._processes: dict[str, _Process] = {}
        self._was_active: dict[Task, Place] = {}
        self._was_standby: dict[Task, list[Place]] = {}
        for member_id in java_ordered(members):
            self._remember(member_id, members[member_id])

    def _remember(self, member_id: str, member: AssignableMember) -> None:
        place = Place(member.process_id, member_id)
        self._processes.setdefault(member.process_id, _Process()).counts[member_id] = 0
        for name, partitions in member.before.active.items():
            self._was_active |= dict.fromkeys((Task(name, at) for at in partitions), place)
        for name, partitions in member.before.standby.items():
            for at in partitions:
                self._was_standby.setdefault(Task(name, at), []).append(place)

    def run(self) -> dict[str, TaskRoles]:
        self._assign_active()
        if self._replicas:
            self._assign_standby()
        found = {}
        for member_id, member in self._members.items():
            process = self._processes[member.process_id]
            active, standby = process.active.get(member_id, ()), process.standby.get(member_id, ())
            found[member_id] = TaskRoles(_by_subtopology(active), _by_subtopology(standby))
        return found

    def _by_load(self) -> JavaPriorityQueue[_Process]:
        ordered = java_ordered(self._processes, len(self._members))
        return JavaPriorityQueue((self._processes[each] for each in ordered), lambda process: process.load)

    # Active tasks

    def _assign_active(self) -> None:
        left = sorted(self._tasks, key=lambda task: (task.partition, task.subtopology_id))
        left = [task for task in left if not self._gets_active(task, self._was_active.get(task))]
        left = [task for task in left if not self._gets_active(task, self._least_loaded(self._was_standby.get(task)))]
        by_load = self._by_load()
        for task in sorted(left):
            process = by_load.poll()
            assert process is not None
            self._note_active(process.add_to_least_loaded(task, is_active=True))
            by_load.add(process)

    def _gets_active(self, task: Task, place: Place | None) -> bool:
        if place is None:
            return False
        process = self._processes[place.process_id]
        if process.counts[place.member_id] >= self._active_quota.per_member:
            return False
        self._note_active(process.add(place.member_id, task, is_active=True))
        return True

    def _note_active(self, count: int) -> None:
        self._active_quota.note(count)
        self._total_quota.note(count)

    # Standby replicas

    def _assign_standby(self) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(self._stateful, key=lambda task: (task.partition, task.subtopology_id), reverse=True):
            replicas = self._replicas
            while replicas and self._goes_back(task):
                replicas -= 1
            if replicas:
                left.append((task, replicas))
        by_load = self._by_load()
        for task, replicas in sorted(left, reverse=True):
            for _ in range(replicas):
                if not self._add_to_least_loaded(by_load, task):
                    break

    def _goes_back(self, task: Task) -> bool:
        return self._gets_standby(task, self._was_active.get(task)) or self._gets_standby(
            task, self._least_loaded(self._was_standby.get(task), task)
        )

    def _gets_standby(self, task: Task, place: Place | None) -> bool:
        if place is None:
            return False
        process = self._processes[place.process_id]
        if task in process.tasks or process.counts[place.member_id] >= self._total_quota.per_member:
            return False
        self._total_quota.note(process.add(place.member_id, task, is_active=False))
        return True

    def _add_to_least_loaded(self, by_load: JavaPriorityQueue[_Process], task: Task) -> bool:
        """Processes that have the task already are put back in the order in which Kafka puts them back."""
        skipped: list[_Process] = []
        found = False
        while (process := by_load.poll()) is not None:
            skipped.append(process)
            if task not in process.tasks:
                self._total_quota.note(process.add_to_least_loaded(task, is_active=False))
                found = True
                break
        for process in reversed(skipped):
            by_load.add(process)
        return found

    def _least_loaded(self, places: list[Place] | None, task: Task | None = None) -> Place | None:
        """Of those who had the task: the first, unless another has less to do both as a process and as a member."""
        if not places:
            return None
        chosen, first = places[0], self._processes[places[0].process_id]
        least = (first.load, first.counts[chosen.member_id])
        for place in places[1:]:
            process = self._processes[place.process_id]
            load, count = process.load, process.counts[place.member_id]
            if load < least[0] and (task is None or task not in process.tasks) and count < least[1]:
                chosen, least = place, (load, count)
        # Kafka asks the process of the first here, whoever was chosen.
        return chosen if task is None or task not in first.tasks else None


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology_id, set()).add(task.partition)
    return {each: frozenset(partitions) for each, partitions in found.items()}
