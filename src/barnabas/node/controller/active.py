"""One term of the active controller: decisions become records, and are answered when these are committed.

Theory. The working image holds everything that was appended. A decision is taken on it, its records are replayed there
at once and appended to the log, and its answer waits until they are committed. A decision without records waits for
those before it, because its answer may rest on them. A decision about many items is taken in turns with whatever else
the node does; other decisions wait for it, because they build on it.

The term ends when this node no longer leads. Then everybody who waits is told NOT_CONTROLLER and the working image is
dropped with all that was not committed; the next term begins with a copy of the committed image.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.steps import Steps
from barnabas.node.raft.interface import Raft
from barnabas.node.turns import in_turns, step_in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Record

T = TypeVar("T")

# A decision that is not atomic is appended in parts of this size.
RECORDS_PER_APPEND = 1000
# More records of a decision are replayed in turns.
RECORDS_AT_ONCE = 500


class ActiveController:
    def __init__(self, raft: Raft, epoch: int, committed: Callable[[], MetadataImage], first_level: int) -> None:
        """`committed` gives the image of all that was replayed; `first_level` is the level of a log without any."""
        self.epoch = epoch
        self.image = committed().copy()
        # The time of the event loop at which anything was appended last.
        self.appended_at = asyncio.get_running_loop().time()
        self._raft = raft
        self._committed = committed
        self._first_level = first_level
        self._appended: deque[tuple[int, Sequence[Record]]] = deque()  # what the committed image does not have yet
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_over = False
        # A decision that is being taken in turns.
        self._long_decision: asyncio.Future[None] | None = None

    async def decide(
        self,
        decide: Callable[[MetadataImage], ControllerDecision[T] | Steps[ControllerDecision[T]]],
        deadline: float | None = None,
    ) -> T:
        """`deadline` is a time of the event loop; who waits longer is told REQUEST_TIMED_OUT."""
        while self._long_decision is not None:
            await asyncio.shield(self._long_decision)
        self._require_lead()
        decision = decide(self.image)
        if isinstance(decision, Generator):
            decision = await self._decide_in_turns(decision)
        else:
            self.append(decision.records, is_atomic=decision.is_atomic)
        await self.until_committed(deadline)
        return decision.response

    async def _decide_in_turns(self, steps: Steps[ControllerDecision[T]]) -> ControllerDecision[T]:
        """Also appends its records."""
        image = self.image
        self._long_decision = over = asyncio.get_running_loop().create_future()
        try:
            decision = await step_in_turns(steps)
            self._require_lead(image)
            if decision.is_atomic and len(decision.records) > RECORDS_AT_ONCE:
                await self._replay_in_turns(image, decision.records)
                self._append(decision.records, is_replayed=True)
            else:
                self.append(decision.records, is_atomic=decision.is_atomic)
        finally:
            self._long_decision = None
            over.set_result(None)
        return decision

    async def _replay_in_turns(self, image: MetadataImage, records: Sequence[Record]) -> None:
        try:
            async for record in in_turns(records):
                image.replay(record)
            self._require_lead(image)
        except BaseException:
            self._rebuild()
            raise

    def append(self, records: Sequence[Record], *, is_atomic: bool = True) -> None:
        size = len(records) if is_atomic else RECORDS_PER_APPEND
        for start in range(0, len(records), max(size, 1)):
            self._append(records[start : start + size])

    async def until_committed(self, deadline: float | None = None) -> None:
        """Everything that was appended so far."""
        self._require_lead()
        if self._raft.high_watermark > self.image.offset:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append((self.image.offset, waiter))
        timer = None if deadline is None else loop.call_at(deadline, _time_out, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()

    def committed(self, offset: int) -> None:
        waiters = self._waiters
        while waiters and waiters[0][0] <= offset:
            waiter = waiters.popleft()[1]
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        self._is_over = True
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(not_controller())
        self._waiters.clear()

    def _require_lead(self, image: MetadataImage | None = None) -> None:
        """`image` is what was decided about."""
        if self._is_over or (image is not None and image is not self.image):
            raise not_controller()

    def _append(self, records: Sequence[Record], *, is_replayed: bool = False) -> None:
        image = self.image
        try:
            level = image.metadata_version or self._first_level
            if not is_replayed:
                image.replay_all(records)
            offset = self._raft.append(records, self.epoch, level=level)
        except Exception:
            self._rebuild()
            raise
        image.offset, image.epoch = offset, self.epoch
        self.appended_at = asyncio.get_running_loop().time()
        self._forget_committed()
        self._appended.append((offset, records))

    def _rebuild(self) -> None:
        """Without the records that failed: the committed image, and what was appended behind it."""
        self._forget_committed()
        self.image = image = self._committed().copy()
        for offset, records in self._appended:
            image.replay_all(records)
            image.offset, image.epoch = offset, self.epoch

    def _forget_committed(self) -> None:
        replayed = self._committed().offset
        while self._appended and self._appended[0][0] <= replayed:
            self._appended.popleft()


def not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")


def _time_out(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The change was not committed in time."))
