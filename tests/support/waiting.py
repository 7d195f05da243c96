"""Waiting for a condition, with a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LIMIT_S = 60.0
LOOK_S = 0.01


def wait_until(condition: Callable[[], object], what: str = "the condition", limit_s: float = LIMIT_S) -> None:
    """Returns as soon as it holds, and fails if it does not in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {limit_s:g} s"
        time.sleep(LOOK_S)


async def until(condition: Callable[[], object], what: str = "the condition", limit_s: float = LIMIT_S) -> None:
    """The same on an event loop."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {limit_s:g} s"
        await asyncio.sleep(LOOK_S)
