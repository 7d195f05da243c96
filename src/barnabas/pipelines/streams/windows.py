"""Windows of time: tumbling, hopping, sliding and session, each with a grace for records that come late.

Times are milliseconds or timedeltas. A window of tumbling and hopping windows holds start <= time < end, as Kafka
Streams has it; of sliding and session windows both ends belong to it.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.serdes import AUTO, Serde

K = TypeVar("K")
Duration = timedelta | int

START, END_AND_START = ">q", ">qq"


def milliseconds(duration: Duration, what: str, least: int = 0) -> int:
    if not isinstance(duration, (int, timedelta)) or isinstance(duration, bool):
        raise TopologyError(f"{what} is a timedelta or a whole number of milliseconds, not {duration!r}")
    ms = round(duration.total_seconds() * 1000) if isinstance(duration, timedelta) else duration
    if ms < least:
        raise TopologyError(f"{what} is at least {least} ms, not {duration}")
    return ms


class Windowed(NamedTuple, Generic[K]):
    """A key in a window."""

    key: K
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class TimeWindows:
    """Tumbling where they advance by their size, hopping where by less."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __str__(self) -> str:
        kind = "tumbling" if self.size_ms == self.advance_ms else "hopping"
        return f"{kind} {self.size_ms} ms by {self.advance_ms} ms, grace {self.grace_ms} ms"


@dataclass(frozen=True)
class SlidingWindows:
    difference_ms: int
    grace_ms: int

    def __str__(self) -> str:
        return f"sliding {self.difference_ms} ms, grace {self.grace_ms} ms"


@dataclass(frozen=True)
class SessionWindows:
    gap_ms: int
    grace_ms: int

    def __str__(self) -> str:
        return f"sessions {self.gap_ms} ms apart, grace {self.grace_ms} ms"


@dataclass(frozen=True)
class JoinWindows:
    """The other record's time lies at most so much before and after this one's."""

    before_ms: int
    after_ms: int
    grace_ms: int
    at_once: bool = False  # shows a record without a partner when it comes, not when none can come any more

    def __str__(self) -> str:
        told = f"{self.before_ms} ms before to {self.after_ms} ms after, grace {self.grace_ms} ms"
        return f"{told}, unmatched at once" if self.at_once else told


Windows = TimeWindows | SlidingWindows | SessionWindows


def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
    size_ms = milliseconds(size, "the size of a window", 1)
    return TimeWindows(size_ms, size_ms, milliseconds(grace, "grace"))


def hopping(size: Duration, advance: Duration, *, grace: Duration = 0) -> TimeWindows:
    size_ms, advance_ms = milliseconds(size, "the size of a window", 1), milliseconds(advance, "the advance", 1)
    if advance_ms > size_ms:
        raise TopologyError(f"windows of {size_ms} ms that advance by {advance_ms} ms would leave records out")
    return TimeWindows(size_ms, advance_ms, milliseconds(grace, "grace"))


def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
    return SlidingWindows(milliseconds(difference, "the time difference"), milliseconds(grace, "grace"))


def session_window(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """Sessions: records of a key that are at most `gap` apart are in one window."""
    return SessionWindows(milliseconds(gap, "the gap between sessions", 1), milliseconds(grace, "grace"))


def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """The older name of session_window()."""
    warnings.warn(
        "session() of barnabas.streams is the older name of session_window()", DeprecationWarning, stacklevel=2
    )
    return session_window(gap, grace=grace)


def within(
    time: Duration = 0,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration = 0,
    at_once: bool = False,
) -> JoinWindows:
    """For joins of streams: `within(5000)` to both sides, or `within(before=0, after=5000)`. With `at_once` left and
    outer joins show a record without a partner as soon as it comes, and its pairs besides when partners come later."""
    before_ms = milliseconds(time if before is None else before, "the time before")
    after_ms = milliseconds(time if after is None else after, "the time after")
    return JoinWindows(before_ms, after_ms, milliseconds(grace, "grace"), bool(at_once))


def time_windowed(inner: Serde[Any] = AUTO, size_ms: int = 0) -> Serde[Any]:
    """Kafka Streams' bytes of a key in a time window: the key's and eight of the window's start."""

    def encode(value: Windowed[Any]) -> bytes:
        return inner.encode(value.key) + struct.pack(START, value.start_ms)

    def decode(data: bytes) -> Windowed[Any]:
        (start_ms,) = struct.unpack(START, data[-8:])
        return Windowed(inner.decode(data[:-8]), start_ms, start_ms + size_ms)

    return Serde(f"windowed {inner.name}", encode, decode)


def session_windowed(inner: Serde[Any] = AUTO) -> Serde[Any]:
    """Kafka Streams' bytes of a key in a session: the key's, eight of the end and eight of the start."""

    def encode(value: Windowed[Any]) -> bytes:
        return inner.encode(value.key) + struct.pack(END_AND_START, value.end_ms, value.start_ms)

    def decode(data: bytes) -> Windowed[Any]:
        end_ms, start_ms = struct.unpack(END_AND_START, data[-16:])
        return Windowed(inner.decode(data[:-16]), start_ms, end_ms)

    return Serde(f"session windowed {inner.name}", encode, decode)
