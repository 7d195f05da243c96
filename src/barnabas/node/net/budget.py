"""One budget for what all receive buffers hold beyond their first 64 KiB.

A connection asks before its buffer grows. If the budget is spent it stops reading and stands in line until others give
back. Two things must not happen: that everybody stands in line, each with half a request, or that a silent client sits
on the budget while others wait. So when the line does not move, `relieve` closes those who hold much and send nothing,
and if nobody is left who could give back, lets the first in line go over the budget until its frame is served.
"""

from __future__ import annotations

from typing import Protocol

SILENT_TICKS = 10


class Holder(Protocol):
    """A connection, as the budget sees it."""

    held_bytes: int
    last_active_tick: int

    @property
    def is_receiving(self) -> bool:
        """In the middle of a frame, so that only its peer can bring it forward."""
        ...

    def proceed(self) -> None:
        """Reads on after having stood in line."""
        ...

    def abort(self, reason: str) -> None: ...


class ReceiveBudget:
    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._holders: set[Holder] = set()
        self._line: dict[Holder, int] = {}
        self._privileged: Holder | None = None
        self._moved = False

    @property
    def waiting(self) -> int:
        return len(self._line)

    def take(self, holder: Holder, more_bytes: int) -> bool:
        """Whether the buffer may grow now. If not, `holder.proceed()` is called when it has been granted."""
        if holder is self._privileged:
            self._grant(holder, more_bytes)
            return True
        if self._line or self.used_bytes + more_bytes > self.limit_bytes:
            self._line[holder] = more_bytes
            return False
        self._grant(holder, more_bytes)
        return True

    def give_back(self, holder: Holder) -> None:
        self._line.pop(holder, None)
        if holder is self._privileged:
            self._privileged = None
        if holder.held_bytes:
            self.used_bytes -= holder.held_bytes
            holder.held_bytes = 0
            self._holders.discard(holder)
        self._serve_line()

    def relieve(self, tick: int) -> None:
        """Called with every tick: sees to it that the line moves."""
        moved, self._moved = self._moved, False
        if moved or not self._line:
            return
        for holder in list(self._holders):
            waits = holder in self._line
            if holder.is_receiving and not waits and tick - holder.last_active_tick >= SILENT_TICKS:
                holder.abort("it holds memory that others wait for, and sends nothing")
        if self._line and all(holder in self._line for holder in self._holders):
            self._privileged = next(iter(self._line))
            self._admit(self._privileged)

    def _serve_line(self) -> None:
        while self._line:
            holder, more_bytes = next(iter(self._line.items()))
            if self.used_bytes + more_bytes > self.limit_bytes:
                return
            self._admit(holder)

    def _admit(self, holder: Holder) -> None:
        self._grant(holder, self._line.pop(holder))
        holder.proceed()

    def _grant(self, holder: Holder, more_bytes: int) -> None:
        self._moved = True
        self.used_bytes += more_bytes
        holder.held_bytes += more_bytes
        self._holders.add(holder)
