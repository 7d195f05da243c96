"""What clients did and saw: the history that the judge decides on.

A send is acknowledged with an offset, or its outcome is not known: a time-out or a lost connection says nothing about
what the cluster did. A transaction was committed, was aborted, or its end is not known. Times are of one monotonic
clock, in seconds.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum

Partition = tuple[str, int]
UNKNOWN_OFFSET = -1
# Between a copied value and the transaction that copied it, which may be aborted and followed by another.
COPIED_BY = b"|"


class Outcome(Enum):
    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass
class Transaction:
    id: str
    outcome: Outcome = Outcome.UNKNOWN
    # When its commit was first asked for; None if it never was.
    commit_asked_at: float | None = None


@dataclass
class Send:
    writer: str
    partition: Partition
    value: bytes
    sent_at: float
    transaction: str | None = None
    offset: int = UNKNOWN_OFFSET
    acknowledged_at: float | None = None


@dataclass(frozen=True)
class Seen:
    """A record that a consumer was given. An assignment is what one consumer has without interruption."""

    assignment: str
    partition: Partition
    offset: int
    value: bytes
    at: float


@dataclass(frozen=True)
class CommittedOffset:
    """As the coordinator told it at that moment."""

    group: str
    partition: Partition
    offset: int
    at: float


@dataclass(frozen=True)
class Promise:
    """What a topic's writers may rely on."""

    once: bool = True  # no value is there twice
    in_order: bool = True  # one writer's values are in the order in which they were sent


@dataclass
class History:
    """All that happened. `log` is what is there in the end, committed records only; `raw` has the others too."""

    promises: dict[str, Promise] = field(default_factory=dict)
    sends: list[Send] = field(default_factory=list)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    committed: list[CommittedOffset] = field(default_factory=list)
    log: dict[Partition, dict[int, bytes]] = field(default_factory=dict)
    raw: dict[Partition, dict[int, bytes]] = field(default_factory=dict)
    # Idempotent writers of librdkafka with several requests in flight may write values again in a new producer epoch
    # (`judge.written_again`). Of each value at several places, who wrote it there: producer id and epoch.
    several_in_flight: set[str] = field(default_factory=set)
    written_by: dict[tuple[Partition, int], tuple[int, int]] = field(default_factory=dict)
    # Every value of the first topic must be copied to the second by transactions that carry the offsets.
    copies: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, send: Send) -> Send:
        with self.lock:
            self.sends.append(send)
        return send

    def see(self, seen: Seen) -> None:
        with self.lock:
            self.seen.append(seen)

    def tell_committed(self, committed: CommittedOffset) -> None:
        with self.lock:
            self.committed.append(committed)
