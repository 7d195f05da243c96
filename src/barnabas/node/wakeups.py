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
    """Of one dispatcher.

    Those that are resumed resume nobody at once: it could be a request of the very connection that is being served,
    whose earlier answers are not written yet.
    """

    __slots__ = ("_collects", "_is_open", "_woken")

    def __init__(self) -> None:
        self._is_open = False
        self._collects = False
        self._woken: deque[Callable[[], None]] = deque()

    def open(self) -> bool:
        """A connection begins to serve; False if that happens while another one is serving."""
        if self._is_open:
            return False
        self._is_open = self._collects = True
        return True

    def add(self, resume: Callable[[], None]) -> None:
        if self._collects:
            self._woken.append(resume)
        else:
            asyncio.get_running_loop().call_soon(resume)

    def close(self) -> None:
        """Requests that were woken since `open` go on, some of them at once."""
        self._collects = False
        woken = self._woken
        for _ in range(min(len(woken), ANSWERED_FIRST_MAX)):
            try:
                woken.popleft()()
            except Exception as error:  # it is no fault of the request that woke this one
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "could not resume a waiting request", "exception": error})
        while woken:
            self.add(woken.popleft())
        self._is_open = False
