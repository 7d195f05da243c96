"""The uniform assignment of members that subscribe to different topics.

What members had is kept where they still subscribe. Free partitions go to the subscriber with the least, topic by
topic, beginning with those that have the most partitions for each subscriber. Then topics are looked through, and
partitions move from the subscriber with the most to the one with the least, until no move within any topic makes it
more even, or a number of rounds is over.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from barnabas.core.groups.modern import Target
from barnabas.wire.uuids import Uuid

ROUNDS_MAX = 16


def assign_differing(
    topics: Mapping[str, frozenset[Uuid]], before: Mapping[str, Target], sizes: Mapping[Uuid, int]
) -> dict[str, dict[Uuid, frozenset[int]]]:
    """`topics` names what each member subscribes to, in the order in which members are preferred."""
    balance = _Balance(topics, before, sizes)
    balance.hand_out()
    balance.even_out()
    return balance.targets()


class _Balance:
    def __init__(
        self, topics: Mapping[str, frozenset[Uuid]], before: Mapping[str, Target], sizes: Mapping[Uuid, int]
    ) -> None:
        self._members = list(topics)
        self._sizes = sizes
        self._loads = [0] * len(self._members)
        self._subscribers: dict[Uuid, list[int]] = {}
        self._owners: dict[Uuid, list[int | None]] = {}
        for index, member_id in enumerate(self._members):
            for topic_id in topics[member_id]:
                self._subscribers.setdefault(topic_id, []).append(index)
                self._owners.setdefault(topic_id, [None] * sizes[topic_id])
        for index, member_id in enumerate(self._members):
            for topic_id, partitions in before[member_id].items():
                if topic_id not in topics[member_id]:
                    continue
                for partition in partitions:
                    if partition < sizes[topic_id] and self._owners[topic_id][partition] is None:
                        self._give(topic_id, partition, index)
        self._order = sorted(
            self._subscribers,
            key=lambda topic_id: (-sizes[topic_id] / len(self._subscribers[topic_id]), topic_id),
        )

    def _give(self, topic_id: Uuid, partition: int, member: int) -> None:
        owner = self._owners[topic_id][partition]
        if owner is not None:
            self._loads[owner] -= 1
        self._owners[topic_id][partition] = member
        self._loads[member] += 1

    def hand_out(self) -> None:
        for topic_id in self._order:
            least = [(self._loads[member], member) for member in self._subscribers[topic_id]]
            heapq.heapify(least)
            for partition, owner in enumerate(self._owners[topic_id]):
                if owner is None:
                    load, member = least[0]
                    self._give(topic_id, partition, member)
                    heapq.heapreplace(least, (load + 1, member))

    def even_out(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not sum(self._even_out(topic_id) for topic_id in self._order):
                return

    def _even_out(self, topic_id: Uuid) -> int:
        """How many partitions of the topic have moved."""
        subscribers = self._subscribers[topic_id]
        if len(subscribers) < 2:
            return 0
        owned: dict[int, list[int]] = {member: [] for member in subscribers}
        for partition, owner in enumerate(self._owners[topic_id]):
            if owner is not None:
                owned[owner].append(partition)
        least = [(self._loads[member], member) for member in subscribers]
        most = [(-self._loads[member], member) for member in subscribers if owned[member]]
        heapq.heapify(least)
        heapq.heapify(most)
        moved = 0
        while most:
            giver_load, giver = -most[0][0], most[0][1]
            if giver_load != self._loads[giver] or not owned[giver]:
                heapq.heappop(most)
                if owned[giver]:
                    heapq.heappush(most, (-self._loads[giver], giver))
                continue
            taker_load, taker = least[0]
            if taker_load != self._loads[taker]:
                heapq.heapreplace(least, (self._loads[taker], taker))
                continue
            if giver_load - taker_load <= 1:
                break
            partition = owned[giver].pop()
            self._give(topic_id, partition, taker)
            owned[taker].append(partition)
            heapq.heapreplace(least, (self._loads[taker], taker))
            moved += 1
        return moved

    def targets(self) -> dict[str, dict[Uuid, frozenset[int]]]:
        collected: list[dict[Uuid, set[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner is not None:
                    collected[owner].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(parts) for topic_id, parts in each.items()}
            for member_id, each in zip(self._members, collected, strict=True)
        }
