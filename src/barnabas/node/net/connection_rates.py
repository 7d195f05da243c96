"""How many connections a second are welcome: from one address (a quota), and on the whole or on one listener
(`max.connection.creation.rate`).

Who comes too often from one address is not served, and closed after the time for which it should have kept still:
clients that try again at once are slowed down by that. Beyond the limits of the node and of a listener a connection is
accepted, and waits until its turn has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from barnabas.core.security.rates import WindowedRate

ADDRESSES_MAX = 10_000
NODE = ""  # in place of a listener's name


class ConnectionRates:
    def __init__(self, samples: int = 11, window_s: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._samples = samples
        self._window_ms = window_s * 1000.0
        self._clock = clock
        self._addresses: dict[str, WindowedRate] = {}
        self._listeners: dict[str, WindowedRate] = {}
        # Gives the limit of an address, None if it has none.
        self.limit_of: Callable[[str], float | None] | None = None
        self.listener_limits: Mapping[str, float] = {}

    @property
    def is_active(self) -> bool:
        return self.limit_of is not None or bool(self.listener_limits)

    def refuse_for_s(self, address: str) -> float:
        """After how long a connection from here is closed; 0 if it is welcome. Those that are refused do not count."""
        limit = None if self.limit_of is None else self.limit_of(address)
        if limit is None:
            return 0.0
        rate = self._addresses.get(address)
        if rate is None:
            rate = self._addresses[address] = self._new_address()
        now_ms = self._clock() * 1000
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if throttle_ms > 0:
            rate.record(-1, now_ms)
        return throttle_ms / 1000

    def wait_s(self, listener: str) -> float:
        """How long a connection that was accepted on the listener waits before it is served."""
        longest_ms = 0.0
        now_ms = self._clock() * 1000
        for name in (NODE, listener):
            limit = self.listener_limits.get(name)
            if limit is None:
                continue
            rate = self._listeners.setdefault(name, self._new())
            rate.record(1, now_ms)
            longest_ms = max(longest_ms, rate.throttle_ms(limit, now_ms))
        return longest_ms / 1000

    def _new_address(self) -> WindowedRate:
        if len(self._addresses) >= ADDRESSES_MAX:
            now_ms = self._clock() * 1000
            self._addresses = {each: kept for each, kept in self._addresses.items() if not kept.is_idle(now_ms)}
        return self._new()

    def _new(self) -> WindowedRate:
        return WindowedRate(self._samples, self._window_ms)
