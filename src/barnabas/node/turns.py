"""Long requests take turns, so that no request keeps another client waiting.

Theory. One event loop serves everybody. What is asked for in one request may be little or a hundred thousand items; so
every loop over items whose number a client chooses goes through `in_turns`. It costs next to nothing while the work is
short, and gives up the loop as soon as the work has lasted `TURN_S`. A request that has given up the loop stands in the
`Lane`, behind all others that do, and each turn of the event loop takes one step of one of them: however many long
requests there are, between two looks at the sockets lies one turn of one of them.

What is changed between two turns is seen by others: a handler that must not be interrupted takes its decision whole, of
a number of items that its API's limit bounds (`dispatch.ELEMENTS_OF_API`).
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from time import perf_counter
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

TURN_S = 0.002


@types.coroutine
def next_turn() -> Generator[None, None, None]:
    """Lets others run. Whoever steps a handler puts it into the lane; a task does as with `sleep(0)`."""
    yield


class Turn:
    """For loops in which every microsecond counts; others are written with `in_turns`."""

    __slots__ = ("_over_at", "given_up")

    def __init__(self) -> None:
        self._over_at = perf_counter() + TURN_S
        self.given_up = False

    @property
    def is_over(self) -> bool:
        return perf_counter() > self._over_at

    async def give_up(self) -> None:
        self.given_up = True
        await next_turn()
        self._over_at = perf_counter() + TURN_S


async def in_turns(items: Iterable[Item]) -> AsyncGenerator[Item, None]:
    over_at = perf_counter() + TURN_S
    for item in items:
        if perf_counter() > over_at:
            await next_turn()
            over_at = perf_counter() + TURN_S
        yield item


async def step_in_turns(steps: Generator[None, None, Result]) -> Result:
    """Runs a generator that yields wherever it may be interrupted; its result."""
    over_at = perf_counter() + TURN_S
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: Result = finished.value
            return result
        if perf_counter() > over_at:
            await next_turn()
            over_at = perf_counter() + TURN_S


class Lane:
    """Steps that wait for their turn, one of them in each turn of the loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, step: Callable[[], object]) -> None:
        self._waiting.append(step)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        step = self._waiting[0]
        try:
            step()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._run)
