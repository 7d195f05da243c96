"""The three throttles of a broker: what it hands out as a leader, copies as a follower, and moves between its disks.

The rates are dynamic configs of brokers, the lists of throttled replicas configs of topics; both take effect at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.core.replication.throttle import NO_LIMIT, Throttle, is_throttled
from barnabas.node.broker.partition import Partition
from barnabas.node.configuration import BrokerConfig
from barnabas.node.storage.log_config import LogConfig

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
WINDOWS = ("replication.quota.window.num", "replication.quota.window.size.seconds")
MOVES_WINDOWS = (
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
)


class BrokerThrottle:
    def __init__(self, samples: int, window_s: int, clock: Callable[[], float]) -> None:
        self._throttle = Throttle(samples, window_s * 1000.0)
        self._clock = clock

    def limit(self, bytes_per_s: int) -> None:
        self._throttle.bytes_per_s = bytes_per_s

    def record(self, size_bytes: int) -> None:
        self._throttle.record(size_bytes, self._clock() * 1000)

    @property
    def rest_s(self) -> float:
        """How long no more of a throttled replica may be copied."""
        return self._throttle.rest_ms(self._clock() * 1000) / 1000


class ReplicaThrottle(BrokerThrottle):
    """Of some replicas only: those that their topic lists for this side."""

    def __init__(
        self,
        samples: int,
        window_s: int,
        clock: Callable[[], float],
        node_id: int,
        listed: Callable[[LogConfig], tuple[str, ...]],
    ) -> None:
        super().__init__(samples, window_s, clock)
        self._node_id = node_id
        self._listed = listed

    def covers(self, partition: Partition) -> bool:
        return is_throttled(self._listed(partition.log.config), partition.index, self._node_id)


class Throttles:
    def __init__(self, node_id: int, config: BrokerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        windows = _windows(config, *WINDOWS)
        self.leader = ReplicaThrottle(
            *windows, clock, node_id, lambda config: config.leader_replication_throttled_replicas
        )
        self.follower = ReplicaThrottle(
            *windows, clock, node_id, lambda config: config.follower_replication_throttled_replicas
        )
        self.moves = BrokerThrottle(*_windows(config, *MOVES_WINDOWS), clock)
        self.reconfigure(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        self.leader.limit(_rate(config, LEADER_RATE))
        self.follower.limit(_rate(config, FOLLOWER_RATE))
        self.moves.limit(_rate(config, MOVES_RATE))


def _windows(config: BrokerConfig, samples: str, size: str) -> tuple[int, int]:
    return int(str(config.value(samples))), int(str(config.value(size)))


def _rate(config: BrokerConfig, key: str) -> int:
    """A broker's own rate comes before that of all brokers; there is none in a broker's file."""
    for layer in (config.dynamic_broker, config.dynamic_default):
        if key in layer:
            return int(layer[key])
    return NO_LIMIT
