"""Waiting requests that a request has woken are answered before it is.

An append wakes the fetches that wait for its records. Resumed by the event loop, they would be answered one turn of the
loop and some system calls after the producer; and where cores are few, the producer's client would run in the place of
the consumer's. So while a connection serves what has arrived, requests that are woken are collected, and answered
before its own answers are written. Not inside the handler that wakes them: nothing is half done when they go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

# So many go first; the others are left to the event loop, so that many consumers do not hold up a producer.
ANSWERED_FIRST_MAX = 8


class Wakeup(asyncio.Future[None]):
    """What a waiting request awaits: a future, and who steps its handler by hand is told by `on_wake`."""

    on_wake: Callable[[], None] | None = None

    def wake(self) -> None:
        if not self.done():
            self.set_result(None)
            if self.on_wake is not None:
                self.on_wake()


class Wakeups:
    """Of one dispatcher."""

    __slots__ = ("_woken", "collects")

    def __init__(self) -> None:
        self.collects = False
        self._woken: deque[Callable[[], None]] = deque()

    def add(self, resume: Callable[[], None]) -> None:
        if self.collects:
            self._woken.append(resume)
        else:
            asyncio.get_running_loop().call_soon(resume)

    def resume_collected(self) -> None:
        """Those that are woken meanwhile go on too, as long as they are few."""
        woken, left = self._woken, ANSWERED_FIRST_MAX
        try:
            while woken and left:
                left -= 1
                try:
                    woken.popleft()()
                except Exception as error:  # it is no fault of the request that woke this one
                    loop = asyncio.get_running_loop()
                    loop.call_exception_handler({"message": "could not resume a waiting request", "exception": error})
        finally:
            self.collects = False
            while woken:
                self.add(woken.popleft())
