"""Server-side assignors: who should consume what.

`range` cuts each topic into ranges of neighbouring partitions, in the order of members, so that the same members get
the same indexes of all topics. `uniform` gives each member as many partitions as any other, give or take one, and
leaves them where they are as far as it can; if members subscribe to different topics it comes as near as it can.
Racks are read from members and partitions, and are part of what a change is noticed by; as in Kafka neither assignor
looks at them when it assigns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.core.groups.consumer.balance import assign_differing
from barnabas.core.groups.java_order import java_ordered
from barnabas.core.groups.modern import Target
from barnabas.wire.uuids import Uuid


class Subscriber(NamedTuple):
    """A member as an assignor sees it: `target` is what it should have had so far."""

    instance_id: str | None
    topics: frozenset[Uuid]
    target: Target


Subscribers = Mapping[str, Subscriber]
# Partitions by topic.
Sizes = Mapping[Uuid, int]
Targets = dict[str, dict[Uuid, frozenset[int]]]
Assignor = Callable[[Subscribers, Sizes], Targets]


def assign_ranges(members: Subscribers, sizes: Sizes) -> Targets:
    targets: Targets = {member_id: {} for member_id in members}
    ordered = sorted(members, key=lambda each: _range_key(each, members[each].instance_id))
    for topic_id, size in sizes.items():
        subscribers = [each for each in ordered if topic_id in members[each].topics]
        if not subscribers:
            continue
        least, extra = divmod(size, len(subscribers))
        start = 0
        for place, member_id in enumerate(subscribers):
            end = start + least + (place < extra)
            if start < end:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return targets


def _range_key(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


def assign_uniformly(members: Subscribers, sizes: Sizes) -> Targets:
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) > 1:
        ordered = java_ordered(members)
        return assign_differing({each: members[each].topics for each in ordered}, _targets(members, ordered), sizes)
    return _assign_alike(members, next(iter(subscriptions), frozenset()), sizes)


def _targets(members: Subscribers, ordered: list[str]) -> dict[str, Target]:
    return {each: members[each].target for each in ordered}


def _assign_alike(members: Subscribers, topics: frozenset[Uuid], sizes: Sizes) -> Targets:
    """All subscribe to the same: quotas are known from the beginning."""
    if not topics:
        return {}
    ordered = java_ordered(members)
    held = {(topic_id, each) for m in members.values() for topic_id, parts in m.target.items() for each in parts}
    free = [
        (topic_id, partition)
        for topic_id in sizes
        if topic_id in topics
        for partition in range(sizes[topic_id])
        if (topic_id, partition) not in held
    ]
    least, extra_left = divmod(sum(sizes[topic_id] for topic_id in topics), len(ordered))
    targets: dict[str, dict[Uuid, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for place, member_id in enumerate(ordered):
        has_extra = extra_left > 0
        quota = least + has_extra
        kept: dict[Uuid, set[int]] = {}
        for topic_id, partitions in members[member_id].target.items():
            if topic_id not in topics:
                continue
            existing = sorted(partition for partition in partitions if partition < sizes[topic_id])
            if existing[:quota]:
                kept[topic_id] = set(existing[:quota])
            free += [(topic_id, partition) for partition in existing[quota:]]
            quota -= len(existing[:quota])
        if quota > 0 and has_extra and len(ordered) - place > extra_left:
            quota -= 1
            has_extra = False
        if quota > 0:
            unfilled.append((member_id, quota))
        extra_left -= has_extra
        targets[member_id] = kept
    rest = iter(free)
    for member_id, quota in unfilled:
        for _, (topic_id, partition) in zip(range(quota), rest, strict=False):
            targets[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(parts) for topic_id, parts in each.items()}
        for member_id, each in targets.items()
    }


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
