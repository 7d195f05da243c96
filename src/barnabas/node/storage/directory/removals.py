"""Files that nobody needs any more go a few at a time, with pauses in between.

Each rename and each removal is a change of the file system's journal. Thousands in a row make it large, and whoever
appends to another file waits until it is written. Nothing here is urgent, so a `Pace` puts pauses in between. The more
work waits, the shorter they are: the backlog shrinks however large it is.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.node.storage.directory.files import remove_directory, unlink_all

if TYPE_CHECKING:
    from barnabas.node.storage.directory.flusher import Flusher

FILES_AT_ONCE = 16
PAUSE_MAX_S = 0.02
BACKLOG_S = 30.0  # a backlog that needs longer than this with the longest pauses gets shorter ones


class Pace:
    def __init__(self) -> None:
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Somebody waits for the end: no more pauses."""
        self._hurry.set()

    def take_time(self) -> None:
        self._hurry.clear()

    async def pause(self, steps_left: int) -> None:
        if self._hurry.is_set():
            return
        try:
            async with asyncio.timeout(min(PAUSE_MAX_S, BACKLOG_S / max(steps_left, 1))):
                await self._hurry.wait()
        except TimeoutError:
            pass


class Removals:
    """Of one log directory: files, and whole directories of deleted partitions, by the thread of the disk."""

    def __init__(self, flusher: Flusher, on_failure: Callable[[OSError], None]) -> None:
        self._flusher = flusher
        self._on_failure = on_failure
        self._pace = Pace()
        self._delayed: dict[asyncio.TimerHandle, Callable[[], None]] = {}
        self._files: deque[str] = deque()
        self._directories: deque[str] = deque()
        self._task: asyncio.Task[None] | None = None

    def remove_files(self, paths: list[str], delay_ms: int) -> None:
        self._after(delay_ms, lambda: self._files.extend(paths))

    def remove_directory(self, path: str, delay_ms: int) -> None:
        self._after(delay_ms, lambda: self._directories.append(path))

    async def stop(self, *, finish: bool) -> None:
        """Everything goes now, also what is not yet due; or is left to the next start."""
        due, self._delayed = self._delayed, {}
        for timer, add in due.items():
            timer.cancel()
            add()
        if not finish:
            self._files.clear()
            self._directories.clear()
        self._pace.hurry()
        if self._files or self._directories:
            self._start()
        while self._task is not None:
            await asyncio.wait([self._task])

    def _after(self, delay_ms: int, add: Callable[[], None]) -> None:
        timer: asyncio.TimerHandle

        def due() -> None:
            del self._delayed[timer]
            add()
            self._start()

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, due)
        self._delayed[timer] = add

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._files or self._directories:
                if self._files:
                    some = [self._files.popleft() for _ in range(min(FILES_AT_ONCE, len(self._files)))]
                    await self._flusher.run(partial(unlink_all, some))
                elif not await self._flusher.run(partial(thin_out, self._directories[0])):
                    await self._flusher.run(partial(remove_directory, self._directories.popleft()))
                await self._pace.pause(len(self._files) // FILES_AT_ONCE + len(self._directories))
        except OSError as error:
            self._on_failure(error)
        finally:
            self._task = None


def thin_out(directory: str) -> bool:
    """Removes some files of a directory; True if there are more. A link is left to `remove_directory`."""
    if os.path.islink(directory):
        return False
    try:
        with os.scandir(directory) as entries:
            paths = [entry.path for entry, _ in zip(entries, range(FILES_AT_ONCE + 1), strict=False)]
        unlink_all(paths[:FILES_AT_ONCE])
    except OSError:
        return False  # `remove_directory` does what it can
    return len(paths) > FILES_AT_ONCE
