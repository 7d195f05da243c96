"""What befalls the cluster: faults drawn by a seed, done to a node that has a certain part at that moment."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.client.errors import ClientError
from barnabas.testing import Cluster
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.support.replication.watching import describe

GROUP, TRANSACTION = 0, 1
Act = Callable[[], None]


def nothing() -> None:
    """The end of a fault that is over when it has begun."""


@dataclass(frozen=True)
class Fault:
    kind: str
    part: str
    hold_s: float


# Of each kind: how likely, and for how many seconds at most.
KINDS: dict[str, tuple[int, float]] = {
    "kill": (5, 6),
    "kill twice": (2, 1),
    "kill all": (1, 2),
    "pause": (4, 12),
    "pause all": (1, 5),
    "restart": (2, 2),
    "rolling restart": (1, 0),
    "isolate": (4, 10),
    "cut what it sends": (2, 10),
    "cut what it hears": (2, 10),
    "cut a pair": (2, 10),
    "isolate everybody": (1, 5),
    "move leaders": (2, 0),
    "move replicas": (2, 3),
}
PARTS = ("leader", "follower", "controller", "group coordinator", "transaction coordinator")


def draw(source: random.Random, kinds: list[str] | None = None) -> Fault:
    names = kinds or list(KINDS)
    kind = source.choices(names, [KINDS[each][0] for each in names])[0]
    return Fault(kind, source.choice(PARTS), round(source.uniform(0, KINDS[kind][1]), 2))


class Faults:
    """Does them to a cluster with links; each is undone before it returns."""

    def __init__(self, cluster: Cluster, source: random.Random, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._random = source
        self._topic = topic
        self._partitions = partitions

    def do(self, fault: Fault) -> str:
        """Returns when it is over; says whom it befell."""
        node_id = self._find(fault.part)
        others = [each for each in self._cluster.nodes if each != node_id]
        cluster, everybody = self._cluster, list(self._cluster.nodes)
        acts: dict[str, tuple[Act, Act]] = {
            "kill": (lambda: cluster.kill(node_id), lambda: cluster.start(node_id)),
            "kill twice": (lambda: self._kill_and_start(node_id), lambda: self._kill_and_start(node_id)),
            "kill all": (lambda: cluster.kill(*everybody), lambda: cluster.start(*everybody)),
            "pause": (lambda: cluster.pause(node_id), lambda: cluster.resume(node_id)),
            "pause all": (lambda: cluster.pause(*everybody), lambda: cluster.resume(*everybody)),
            "restart": (lambda: cluster.stop(node_id), lambda: cluster.start(node_id)),
            "rolling restart": (lambda: self._roll(everybody), nothing),
            "isolate": (lambda: cluster.isolate(node_id), cluster.heal),
            "cut what it sends": (lambda: cluster.partition(node_id, others, one_way=True), cluster.heal),
            "cut what it hears": (lambda: cluster.partition(others, node_id, one_way=True), cluster.heal),
            "cut a pair": (lambda: cluster.partition(node_id, others[0]), cluster.heal),
            "isolate everybody": (lambda: cluster.partition(everybody, everybody), cluster.heal),
            "move leaders": (self._move, nothing),
            "move replicas": (self._shrink, self._move),
        }
        begin, end = acts[fault.kind]
        begin()
        time.sleep(fault.hold_s)
        end()
        everywhere = ("all", "everybody", "rolling", "move")
        if any(word in fault.kind for word in everywhere):
            return "all"
        return f"{node_id} ({fault.part})" + (f" and {others[0]}" if fault.kind == "cut a pair" else "")

    def _kill_and_start(self, node_id: int) -> None:
        self._cluster.kill(node_id)
        self._cluster.start(node_id)

    def _roll(self, node_ids: list[int]) -> None:
        for node_id in node_ids:
            self._cluster.restart(node_id)

    def _draw_orders(self) -> dict[int, list[int]]:
        brokers = list(self._cluster.broker_ids)
        return {index: self._random.sample(brokers, len(brokers)) for index in range(self._partitions)}

    def _shrink(self) -> None:
        """To one replica each."""
        self._reassign({index: order[:1] for index, order in self._draw_orders().items()})

    def _move(self) -> None:
        """The order of the replicas is drawn anew, and the first of them leads."""
        self._reassign(self._draw_orders())
        try:
            with self._cluster.connect() as connection:
                connection.request(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=5000))
        except (ClientError, KafkaError):
            pass  # It is a fault, and may fail.

    def _reassign(self, wanted: dict[int, list[int]]) -> None:
        partitions = [ReassignablePartition(partition_index=index, replicas=each) for index, each in wanted.items()]
        topics = [ReassignableTopic(name=self._topic, partitions=partitions)]
        try:
            with self._cluster.connect() as connection:
                connection.request(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5000))
        except (ClientError, KafkaError):
            pass  # It is a fault, and may fail.

    def _find(self, part: str) -> int:
        """The node that has this part now; any if that cannot be told."""
        try:
            found = self._ask(part)
        except (ClientError, KafkaError, TimeoutError, KeyError, IndexError, StopIteration):
            found = -1
        return found if found in self._cluster.nodes else self._random.choice(list(self._cluster.nodes))

    def _ask(self, part: str) -> int:
        if part == "controller":
            quorum = self._cluster.quorum()
            return -1 if quorum is None else quorum.leader_id
        if part in ("leader", "follower"):
            state = describe(self._cluster, self._topic)[self._random.randrange(self._partitions)]
            followers = [each for each in state.replicas if each != state.leader]
            return state.leader if part == "leader" else self._random.choice(followers)
        kind, key = (GROUP, "readers") if part == "group coordinator" else (TRANSACTION, "transactional-1")
        with self._cluster.connect() as connection:
            answer = connection.request(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
        found: int = answer.coordinators[0].node_id
        return found
