"""Which partitions each member of a share group gets.

Each partition has as many members as it takes to give all members something: one, where partitions are more than
members. Members differ by one partition at most, and keep what they had as far as that allows. If all subscribe to the
same topics, all their partitions are dealt out together, else topic by topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from barnabas.core.groups.java_order import java_ordered
from barnabas.core.groups.modern import Target
from barnabas.wire.uuids import Uuid

At = tuple[Uuid, int]


def spread(
    subscribed: Mapping[str, set[Uuid]], ready: Mapping[Uuid, Iterable[int]], before: Mapping[str, Target]
) -> dict[str, dict[Uuid, frozenset[int]]]:
    """`ready` are the partitions that may be assigned, `before` what each member had."""
    given: dict[str, set[At]] = {each: set() for each in subscribed}
    topics = sorted(set().union(*subscribed.values()) & set(ready))
    is_same_for_all = len({frozenset(each) for each in subscribed.values()}) == 1
    for together in [topics] if is_same_for_all else [[topic] for topic in topics]:
        members = [each for each in java_ordered(subscribed) if subscribed[each].issuperset(together)]
        partitions = [(topic, index) for topic in together for index in sorted(ready[topic])]
        if members and partitions:
            for member, mine in _dealt(members, partitions, before).items():
                given[member] |= mine
    return {
        member: {topic: frozenset(index for at, index in mine if at == topic) for topic in {at for at, _ in mine}}
        for member, mine in given.items()
    }


def _dealt(members: Sequence[str], partitions: Sequence[At], before: Mapping[str, Target]) -> dict[str, set[At]]:
    sharing = -(-len(members) // len(partitions))
    places = sharing * len(partitions)
    bounds = [-(-places * number // len(members)) for number in range(len(members) + 1)]
    quota = {member: bounds[number + 1] - bounds[number] for number, member in enumerate(members)}
    given: dict[str, set[At]] = {member: set() for member in members}
    holders: dict[At, set[str]] = {at: set() for at in partitions}
    for member in members:
        had = [(topic, index) for topic, mine in before.get(member, {}).items() for index in sorted(mine)]
        for at in had:
            if at in holders and len(holders[at]) < sharing and len(given[member]) < quota[member]:
                given[member].add(at)
                holders[at].add(member)
    waiting = deque(member for member in members if len(given[member]) < quota[member])
    for at in sorted(partitions, key=lambda each: len(holders[each])):
        for _ in range(len(waiting)):
            if len(holders[at]) == sharing:
                break
            member = waiting.popleft()
            if member not in holders[at]:
                given[member].add(at)
                holders[at].add(member)
            if len(given[member]) < quota[member]:
                waiting.append(member)
    return given
