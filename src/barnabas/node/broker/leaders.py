"""Whom a client should ask instead: the leader that the image names, and where it listens."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.core.metadata.state import MetadataImage

NO_LEADER = (-1, -1)


class LeaderEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(image: MetadataImage, topic: str, index: int) -> tuple[int, int]:
    """Leader and its epoch, -1 where there is none."""
    known = image.topics.get(topic)
    state = known.partitions.get(index) if known is not None else None
    return NO_LEADER if state is None else (state.leader, state.leader_epoch)


def leader_endpoint(image: MetadataImage, leader: tuple[int, int], listener: str) -> LeaderEndpoint | None:
    broker = image.brokers.get(leader[0])
    endpoint = broker.endpoints.get(listener) if broker is not None and not broker.fenced else None
    if broker is None or endpoint is None:
        return None
    return LeaderEndpoint(broker.id, endpoint.host, endpoint.port, broker.rack)
