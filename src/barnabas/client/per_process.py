"""Clients that a process keeps, and the rule for them after a fork.

A client belongs to the process that made it. A child inherits its sockets and its producer ids, and may use neither:
two processes on one socket read each other's answers, and two that number batches of one producer id lose records as
duplicates. So a child finds nothing of its parent's here and makes its own. The parent's connections stay open:
closing a socket in the child closes the child's descriptor only.

Several threads may ask at once: one of them makes the client, and nobody makes a second one that is never closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Closeable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closeable)


class PerProcess(Generic[T]):
    def __init__(self) -> None:
        self._kept: dict[Hashable, T] = {}
        self._process = os.getpid()
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The one that was made for this key, in this process."""
        if self._process != os.getpid():
            self._lock = threading.RLock()  # the parent's may be held by a thread that is not here
            self.clear()
            self._process = os.getpid()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            return self._kept[key]

    def drop(self, key: Hashable) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            kept.close()

    def clear(self) -> None:
        while self._kept:
            self._kept.popitem()[1].close()
