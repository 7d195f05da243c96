"""Lines of the log that a peer can cause again and again are written once a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

LOG_INTERVAL_S = 60.0
LOG_KEYS_MAX = 1000


class LogLimiter:
    """Says whether a line of this kind has not been written lately, so that a hostile peer cannot fill the disk.

    A key is nothing that a peer can choose: neither a name nor an id from its requests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[object, float] = {}

    def allows(self, key: object) -> bool:
        now = self._clock()
        last = self._written.get(key)
        if last is not None and now - last < LOG_INTERVAL_S:
            return False
        if len(self._written) >= LOG_KEYS_MAX:
            self._written.clear()
        self._written[key] = now
        return True
