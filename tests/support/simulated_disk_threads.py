"""Threads that take turns and an event loop that is driven by hand, so that one seed decides who goes first.

Work given to an executor runs in a thread of its own, but only while `advance` lets it, for so many file operations;
nobody else runs meanwhile. Between two turns of the loop a thread may thus be stopped anywhere between two operations.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

from barnabas.node.storage.directory import flusher
from tests.support.simulated_disk import Crash
from tests.support.simulated_disk_calls import SimulatedDisk

T = TypeVar("T")

ENDING_TURNS_MAX = 1_000
TURNS_MAX = 200_000
WITHOUT_END = 1 << 30


class SteppedExecutor(Executor):
    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._left = 0
        self._working = False
        self._ending = False
        self.thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._working or bool(self._waiting)

    def submit(self, work: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        if self._ending:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()
        self._waiting.append((future, lambda: work(*arguments, **options)))
        return future

    def advance(self, operations: int) -> None:
        """Let the thread work until it has done so many operations, or all there is to do."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, daemon=True)
            self.thread.start()
        self._left = operations
        self._go.release()
        self._paused.acquire()

    def operation(self) -> None:
        """Called in the thread, before each operation."""
        while self._left <= 0:
            self._paused.release()
            self._go.acquire()
        self._left -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while self.busy:
            self.advance(WITHOUT_END)
        if self.thread is not None and not self._ending:
            self._ending = True
            self._go.release()
            self.thread.join()
        self._ending = True

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if self._ending:
                return
            while self._waiting and self._left > 0:
                future, work = self._waiting.popleft()
                self._working = True
                try:
                    result = work()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                self._working = False
            self._paused.release()


class SimulatedThreads:
    """The executors of one life, and the loop that drives them."""

    def __init__(self, disk: SimulatedDisk, random: Random) -> None:
        self._disk = disk
        self._random = random
        self.executors: list[SteppedExecutor] = []
        disk.on_operation = self._operation

    def executor(self, *_: object, **__: object) -> SteppedExecutor:
        made = SteppedExecutor()
        self.executors.append(made)
        return made

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The node's flushers are ours."""
        module: Any = flusher
        original, module.ThreadPoolExecutor = module.ThreadPoolExecutor, self.executor
        try:
            yield
        finally:
            module.ThreadPoolExecutor = original

    def _operation(self) -> None:
        current = threading.current_thread()
        for each in self.executors:
            if each.thread is current:
                each.operation()

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Until the story is told; raises `Crash` if the power goes before."""
        loop = SimulatedLoop(self.executor())
        task = loop.create_task(story)
        try:
            for _ in range(TURNS_MAX):
                loop.turn()
                if self._disk.crashed:
                    raise Crash
                if task.done():
                    return task.result()
                self._advance_somebody()
            raise AssertionError("the story does not end: somebody waits for ever")
        finally:
            self._end(loop, task)

    def _advance_somebody(self) -> None:
        busy = [each for each in self.executors if each.busy]
        if busy and self._random.random() < 0.7:
            self._random.choice(busy).advance(self._random.choice((1, 1, 2, 3, 8, WITHOUT_END)))

    def _end(self, loop: SimulatedLoop, task: asyncio.Task[Any]) -> None:
        """Nobody may be left waiting: a task that the garbage collector ends would go on in a loop that is closed."""
        for each in asyncio.all_tasks(loop):
            each.cancel()
        for _ in range(ENDING_TURNS_MAX):
            for executor in self.executors:
                executor.shutdown()
            loop.turn()
            if not asyncio.all_tasks(loop):
                break
        if task.done() and not task.cancelled():
            task.exception()
        loop.close()


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self, default_executor: SteppedExecutor) -> None:
        super().__init__()
        self._stepped = default_executor
        self.set_exception_handler(lambda loop, context: None)

    def turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        return asyncio.wrap_future((executor or self._stepped).submit(func, *args), loop=self)
