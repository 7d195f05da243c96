"""A decision of the active controller: the records to append, and the answer to give once they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from barnabas.wire.schema import Record

T = TypeVar("T")


@dataclass(frozen=True)
class ControllerDecision(Generic[T]):
    """Records that are not atomic may be committed in parts, in their order."""

    records: Sequence[Record]
    response: T
    is_atomic: bool = True
