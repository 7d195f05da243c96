"""fsyncs of one log directory: one thread, one round at a time. Logs that ask during a round share the next one.

What goes to the disk is gathered on the loop (`prepare_flush`), done in the thread, and its result is taken over on
the loop. An fsync that failed is never tried again: the kernel may have dropped the pages and would report success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.storage.log import PartitionLog

T = TypeVar("T")

LOGS_PER_ROUND = 64
# A round may hold three or four handles per segment: a log that rolls faster than its disk has many, and takes several
# rounds.
SEGMENTS_PER_ROUND = 16
SEGMENTS_PER_LOG_MIN = 2


class Waiter(NamedTuple):
    end_offset: int  # what is below it is to be on the disk
    future: asyncio.Future[int]


class Flusher:
    def __init__(self, name: str, on_failure: Callable[[OSError], None]) -> None:
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"flush {name}")
        self._waiting: dict[PartitionLog, list[Waiter]] = {}
        self._round_is_due = False
        self._round: asyncio.Future[None] | None = None
        self._in_round: dict[PartitionLog, FlushTask] = {}

    def sync(self, log: PartitionLog) -> asyncio.Future[int]:
        """Done when everything appended to `log` so far is on the disk; its result is the recovery point."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._ask_for(log).append(Waiter(log.log_end_offset, future))
        return future

    def flush_later(self, log: PartitionLog) -> None:
        self._ask_for(log)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Other work of the same disk, in the same thread and in order."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def is_awaited(self, log: PartitionLog) -> bool:
        """Whether somebody waits for an fsync of this log, or one is under way."""
        return log in self._waiting or log in self._in_round

    def settle(self, log: PartitionLog, recovery_point: int) -> None:
        """Everything appended to the log is on another disk: who waits for its next fsync need not any more."""
        release(self._waiting.pop(log, []), recovery_point)

    async def idle(self) -> None:
        """Wait until nobody waits."""
        while self._round is not None or self._waiting:
            if self._round is None:
                self._start_round()
            if self._round is not None:
                await asyncio.wait([self._round])

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def _ask_for(self, log: PartitionLog) -> list[Waiter]:
        waiters = self._waiting.setdefault(log, [])
        if self._round is None and not self._round_is_due:
            self._round_is_due = True
            asyncio.get_running_loop().call_soon(self._start_round)
        return waiters

    def _start_round(self) -> None:
        self._round_is_due = False
        if self._round is not None or not self._waiting:
            return
        asked: dict[PartitionLog, list[Waiter]] = {}
        tasks: dict[PartitionLog, FlushTask] = {}
        room = SEGMENTS_PER_ROUND
        for log in list(self._waiting)[:LOGS_PER_ROUND]:
            if room < SEGMENTS_PER_LOG_MIN:
                break
            waiters = self._waiting.pop(log)
            try:
                tasks[log] = log.prepare_flush(segments_max=room)
            except KafkaError as error:
                fail(waiters, error)
            else:
                asked[log] = waiters
                room -= tasks[log].segments
        if not tasks:
            self._start_round()
        else:
            self._in_round = tasks
            self._round = asyncio.get_running_loop().run_in_executor(self._thread, run_all, list(tasks.values()))
            self._round.add_done_callback(lambda done: self._end_round(done, tasks, asked))

    def _end_round(
        self,
        done: asyncio.Future[None],
        tasks: dict[PartitionLog, FlushTask],
        asked: dict[PartitionLog, list[Waiter]],
    ) -> None:
        self._round = None
        self._in_round = {}
        error = None if done.cancelled() else done.exception()
        if error is None and not done.cancelled():
            for log, task in tasks.items():
                log.flushed(task)
                waiters = asked[log]
                if task.is_part:
                    left = [waiter for waiter in waiters if waiter.end_offset > task.end_offset]
                    self._waiting[log] = left + self._waiting.get(log, [])
                    waiters = [waiter for waiter in waiters if waiter.end_offset <= task.end_offset]
                release(waiters, log.recovery_point)
        else:
            if isinstance(error, OSError):
                self._on_failure(error)
            refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {error}")
            for waiters in asked.values():
                fail(waiters, refusal)
        self._start_round()


def run_all(tasks: list[FlushTask]) -> None:
    try:
        for task in tasks:
            task.run()
    finally:
        for task in tasks:
            task.discard()


def release(waiters: list[Waiter], recovery_point: int) -> None:
    for _, future in waiters:
        if not future.done():
            future.set_result(recovery_point)


def fail(waiters: list[Waiter], error: KafkaError) -> None:
    for _, future in waiters:
        if not future.done():
            future.set_exception(error)
