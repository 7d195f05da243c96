"""What a partition's leader must know of the other brokers, and whom it tells that others are in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.core.replication.state import ANY_BROKER_EPOCH, LAG_MAX_MS, Proposal

if TYPE_CHECKING:
    from barnabas.node.broker.partition import Partition


class Neighbours(Protocol):
    lag_max_ms: int

    def eligible_epoch(self, topic: str, index: int, broker_id: int) -> int | None:
        """In which epoch the broker is registered; None while its replica may not be in sync."""

    def registered_epoch(self, broker_id: int) -> int:
        """As `eligible_epoch`, also of a broker that is fenced; -1 if it is unknown."""

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """Tells the controller."""


class Alone:
    """The neighbours of a broker that has none."""

    lag_max_ms = LAG_MAX_MS

    def eligible_epoch(self, topic: str, index: int, broker_id: int) -> int | None:
        return ANY_BROKER_EPOCH

    def registered_epoch(self, broker_id: int) -> int:
        return ANY_BROKER_EPOCH

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """Nobody can be told."""
