"""Where the replicas of new partitions go.

Theory. Brokers stand in circles, one per rack and a second one per rack for brokers that are fenced; the racks stand in
a circle too. A partition takes its replicas rack by rack around the circle, and within a rack the next broker around
its own: so racks are as even as they can be, and brokers within their rack. The next partition begins one rack and one
broker further on, which draws the stripes. Where the circles begin is drawn by lot for each topic, and they are mixed
anew when as many partitions have been placed as there are brokers, so that the same sets do not come again and again.

Three rules stand above evenness: no broker holds two replicas of a partition, the first replica (the leader to be) is
an active broker, and a fenced broker is taken only when its rack has no active one left.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, cycle
from random import Random

from barnabas.core.controller.directories import accepts_replicas
from barnabas.core.metadata.state import BrokerState
from barnabas.wire.errors import ErrorCode, KafkaError


def is_active(broker: BrokerState) -> bool:
    return not broker.fenced and not broker.in_controlled_shutdown


def place_replicas(
    brokers: Iterable[BrokerState], partitions: int, replication_factor: int, random: Random
) -> list[list[int]]:
    """One list of broker ids per partition, the preferred leader first."""
    usable = [broker for broker in brokers if accepts_replicas(broker)]
    active = sum(is_active(broker) for broker in usable)
    if not active:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    if len(usable) == 1:
        return [[usable[0].id] for _ in range(partitions)]
    stripes = _Stripes(usable, active, random)
    return [stripes.next_partition(replication_factor) for _ in range(partitions)]


class _Circle:
    """Brokers around which partitions walk; each partition meets each broker at most once."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self.brokers = sorted(brokers)
        self.start = random.randrange(len(brokers)) if brokers else 0
        self.partition = 0
        self.taken = 0

    def take(self, partition: int) -> int | None:
        if partition != self.partition:
            self.partition = partition
            self.start += 1
            self.taken = 0
        if self.taken == len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.start + self.taken - 1) % len(self.brokers)]


class _Rack:
    def __init__(self, brokers: list[BrokerState], random: Random) -> None:
        self.active = _Circle([broker.id for broker in brokers if is_active(broker)], random)
        self.fenced = _Circle([broker.id for broker in brokers if not is_active(broker)], random)

    def take(self, partition: int) -> int | None:
        broker = self.active.take(partition)
        return self.fenced.take(partition) if broker is None else broker

    def mix(self, random: Random) -> None:
        random.shuffle(self.active.brokers)
        random.shuffle(self.fenced.brokers)


class _Stripes:
    def __init__(self, brokers: list[BrokerState], active: int, random: Random) -> None:
        by_rack: dict[str | None, list[BrokerState]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        self.racks = [
            _Rack(by_rack[name], random) for name in sorted(by_rack, key=lambda name: (name is not None, name or ""))
        ]
        self.start = random.randrange(len(self.racks))
        self.active = active
        self.partition = 0
        self.mixed_at = 0
        self.random = random

    def next_partition(self, replication_factor: int) -> list[int]:
        if self.partition - self.mixed_at == self.active > 1:
            self._mix()
        racks = self._racks_in_turn()
        leader_rack, leader = self._leader(racks)
        replicas = [leader]
        # The leader's rack has had its turn of the first round.
        for rack in chain((rack for rack in racks if rack is not leader_rack), cycle(racks)):
            if len(replicas) == replication_factor:
                break
            broker = rack.take(self.partition)
            if broker is not None:
                replicas.append(broker)
        self.partition += 1
        self.start = (self.start + 1) % len(self.racks)
        return replicas

    def _racks_in_turn(self) -> list[_Rack]:
        return self.racks[self.start :] + self.racks[: self.start]

    def _leader(self, racks: list[_Rack]) -> tuple[_Rack, int]:
        for rack in racks:
            broker = rack.active.take(self.partition)
            if broker is not None:
                return rack, broker
        raise AssertionError("one broker is active")

    def _mix(self) -> None:
        self.random.shuffle(self.racks)
        for rack in self.racks:
            rack.mix(self.random)
        self.mixed_at = self.partition
