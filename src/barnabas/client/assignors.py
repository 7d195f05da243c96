"""Who of a group reads what: the assignments that the group's leader makes, and the words members say it in.

`range` gives each topic's partitions in runs, `roundrobin` one by one over all topics, `cooperative-sticky` evenly and
with as few moves as possible; a partition that moves is first only taken away, and given in the rebalance that follows.
The names and messages are Kafka's, so that members of other clients and ours can be in one group.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.client.errors import UnreadableAnswer
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import grouped
from barnabas.wire.codec import DecodeError
from barnabas.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from barnabas.wire.records.consumer_protocol import TopicPartition as OwnedTopic
from barnabas.wire.schema import Buffer

VERSION = struct.Struct(">h")
GENERATION = struct.Struct(">i")
SUBSCRIPTION_VERSION, ASSIGNMENT_VERSION = 3, 3
NO_GENERATION = -1

Assignment = dict[str, list[TopicPartition]]


class Member(NamedTuple):
    """What a member wants, and what it has: of the generation in which it was given it."""

    id: str
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Static members come first, by the name they were given."""
        return (self.instance_id is None, self.instance_id or self.id)


def encode_subscription(topics: Iterable[str], owned: Iterable[TopicPartition], generation: int) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=GENERATION.pack(generation),  # where older sticky members look for it
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=sorted(indexes)) for topic, indexes in sorted(grouped(owned).items())
        ],
        generation_id=generation,
    )
    return VERSION.pack(SUBSCRIPTION_VERSION) + subscription.encode(SUBSCRIPTION_VERSION)


def decode_subscription(member_id: str, instance_id: str | None, data: Buffer) -> Member:
    try:
        (version,) = VERSION.unpack_from(data)
        known = min(version, SUBSCRIPTION_VERSION)  # later versions only add at the end
        said, _ = ConsumerProtocolSubscription.decode_from(data, VERSION.size, known)
    except (DecodeError, struct.error) as error:
        raise UnreadableAnswer(f"What member {member_id} of the group wants cannot be read: {error}.") from error
    owned = tuple((each.topic, index) for each in said.owned_partitions for index in each.partitions)
    generation = said.generation_id
    if generation == NO_GENERATION and said.user_data is not None and len(said.user_data) == GENERATION.size:
        (generation,) = GENERATION.unpack(said.user_data)
    return Member(member_id, frozenset(said.topics), owned, generation, instance_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=sorted(indexes))
            for topic, indexes in sorted(grouped(partitions).items())
        ]
    )
    return VERSION.pack(ASSIGNMENT_VERSION) + assignment.encode(ASSIGNMENT_VERSION)


def decode_assignment(data: Buffer) -> list[TopicPartition]:
    if not data:
        return []
    try:
        (version,) = VERSION.unpack_from(data)
        given, _ = ConsumerProtocolAssignment.decode_from(data, VERSION.size, min(version, ASSIGNMENT_VERSION))
    except (DecodeError, struct.error) as error:
        raise UnreadableAnswer(f"What the group's leader assigned cannot be read: {error}.") from error
    return [(each.topic, index) for each in given.assigned_partitions for index in each.partitions]


def assign_range(members: list[Member], partitions: Mapping[str, int]) -> Assignment:
    assignment: Assignment = {member.id: [] for member in members}
    for topic, count in sorted(partitions.items()):
        readers = sorted((member for member in members if topic in member.topics), key=lambda member: member.order)
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        first = 0
        for position, member in enumerate(readers):
            last = first + share + (position < extra)
            assignment[member.id] += [(topic, index) for index in range(first, last)]
            first = last
    return assignment


def assign_round_robin(members: list[Member], partitions: Mapping[str, int]) -> Assignment:
    assignment: Assignment = {member.id: [] for member in members}
    circle = sorted(members, key=lambda member: member.order)
    turn = 0
    for topic, count in sorted(partitions.items()):
        if not any(topic in member.topics for member in circle):
            continue
        for index in range(count):
            while topic not in circle[turn % len(circle)].topics:
                turn += 1
            assignment[circle[turn % len(circle)].id].append((topic, index))
            turn += 1
    return assignment


def assign_cooperative_sticky(members: list[Member], partitions: Mapping[str, int]) -> Assignment:
    """Without the partitions that another member still has: they come free in this rebalance, and go in the next."""
    assignment = assign_sticky(members, partitions)
    owners = {partition: member.id for member in members for partition in member.owned}
    return {
        member_id: [partition for partition in given if owners.get(partition, member_id) == member_id]
        for member_id, given in assignment.items()
    }


def assign_sticky(members: list[Member], partitions: Mapping[str, int]) -> Assignment:
    assignment: Assignment = {member.id: [] for member in members}
    for partition, member_id in _kept(members, partitions).items():
        assignment[member_id].append(partition)
    assigned = {partition for given in assignment.values() for partition in given}
    by_order = sorted(members, key=lambda member: member.order)
    for topic, count in sorted(partitions.items()):
        readers = [member for member in by_order if topic in member.topics]
        for index in range(count):
            if readers and (topic, index) not in assigned:
                least = min(readers, key=lambda member: len(assignment[member.id]))
                assignment[least.id].append((topic, index))
    _level(by_order, assignment)
    return assignment


def _kept(members: list[Member], partitions: Mapping[str, int]) -> dict[TopicPartition, str]:
    """Partitions that stay where they are. Of two that claim one, the later generation counts; of equals, neither."""
    claims: dict[TopicPartition, tuple[int, str]] = {}
    disputed: set[TopicPartition] = set()
    for member in members:
        for partition in member.owned:
            topic, index = partition
            if topic not in member.topics or index >= partitions.get(topic, 0):
                continue
            claim = claims.get(partition)
            if claim is None or member.generation > claim[0]:
                claims[partition] = (member.generation, member.id)
                disputed.discard(partition)
            elif member.generation == claim[0]:
                disputed.add(partition)
    return {partition: member_id for partition, (_, member_id) in claims.items() if partition not in disputed}


def _level(members: list[Member], assignment: Assignment) -> None:
    """Moves partitions from who has most to who has least, as long as it makes a difference."""
    topics = {member.id: member.topics for member in members}
    moved = True
    while moved:
        moved = False
        by_count = sorted(assignment, key=lambda member_id: len(assignment[member_id]))
        for poor in by_count:
            for rich in reversed(by_count):
                if len(assignment[rich]) - len(assignment[poor]) < 2:
                    break
                movable = next((one for one in reversed(assignment[rich]) if one[0] in topics[poor]), None)
                if movable is not None:
                    assignment[rich].remove(movable)
                    assignment[poor].append(movable)
                    moved = True
                    break
            if moved:
                break


ASSIGNORS: Mapping[str, Callable[[list[Member], Mapping[str, int]], Assignment]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "cooperative-sticky": assign_cooperative_sticky,
}
JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
COOPERATIVE = frozenset({"cooperative-sticky"})
