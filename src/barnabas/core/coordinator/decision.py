"""What a coordinator decides: records to append, and the answer to give once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.wire.errors import KafkaError

T = TypeVar("T")


class Producer(NamedTuple):
    """Whose transaction records belong to."""

    producer_id: int
    producer_epoch: int


class Marker(NamedTuple):
    """The end of a producer's transaction in a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """`response` may be a promise, which is then followed once the records are committed.

    `decided` is told before anybody else that the records are committed (None), or why they never will be. Records of a
    decision that is not atomic may be spread over several batches if they are many.
    """

    records: Sequence[CoordinatorRecord]
    response: T | Promise[T]
    decided: Callable[[KafkaError | None], None] | None = None
    producer: Producer | None = None
    marker: Marker | None = None
    atomic: bool = True
