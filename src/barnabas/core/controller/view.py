"""What clients are told about brokers and partitions: an image seen through one listener."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.core.controller.directories import MIGRATING, is_online
from barnabas.core.metadata.state import NO_LEADER, BrokerState, Endpoint, MetadataImage, PartitionState
from barnabas.wire.errors import ErrorCode


class PartitionView(NamedTuple):
    error: ErrorCode
    leader: int
    offline_replicas: list[int]


class ImageView:
    """Remembers per listener which brokers are reachable; made anew when the image has changed."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self.image = image
        self.listener = listener
        self._reachable = {
            broker.id for broker in image.brokers.values() if not broker.fenced and listener in broker.endpoints
        }

    def alive_brokers(self, *, fenced: bool = False) -> list[tuple[BrokerState, Endpoint]]:
        """By id; the fenced ones too if asked for."""
        return [
            (broker, broker.endpoints[self.listener])
            for _, broker in sorted(self.image.brokers.items())
            if self.listener in broker.endpoints and (fenced or not broker.fenced)
        ]

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._reachable

    def controller_id(self, own_id: int) -> int:
        """Any broker takes requests for the controller; this one is as good as any, and already connected to."""
        return own_id if own_id in self._reachable else min(self._reachable, default=NO_LEADER)

    def partition(self, partition: PartitionState) -> PartitionView:
        broker = self.image.brokers.get(partition.leader)
        if broker is None:
            return PartitionView(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, self.offline_replicas(partition))
        if self.listener not in broker.endpoints:
            return PartitionView(ErrorCode.LISTENER_NOT_FOUND, NO_LEADER, self.offline_replicas(partition))
        return PartitionView(ErrorCode.NONE, partition.leader, self.offline_replicas(partition))

    def offline_replicas(self, partition: PartitionState) -> list[int]:
        directories = partition.directories or [MIGRATING] * len(partition.replicas)
        return [
            replica
            for replica, directory in zip(partition.replicas, directories, strict=True)
            if replica not in self._reachable or not is_online(self.image.brokers[replica], directory)
        ]
