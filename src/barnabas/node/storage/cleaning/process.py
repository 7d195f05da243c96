"""The node's end of a cleaner's process: started when there is work, kept for the next, ended when there is none."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator

from barnabas.node.storage.cleaning.job import Job, Message, decode_message

MODULE = "barnabas.node.storage.cleaning.child"


class CleanerProcess:
    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._used_at = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def idle_s(self) -> float:
        return 0.0 if self._child is None else time.monotonic() - self._used_at

    async def run(self, job: Job) -> AsyncGenerator[Message, None]:
        """What the process tells about this job; it ends early if the process does."""
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing in the current directory is to be taken for a module
                "-m",
                MODULE,
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=os.environ | {"PYTHONHASHSEED": "random"},  # nobody is to know which keys collide
            )
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(job.encode())
            await child.stdin.drain()
            while line := await child.stdout.readline():
                yield decode_message(line)
        except (ConnectionResetError, BrokenPipeError):
            pass
        finally:
            self._used_at = time.monotonic()

    def kill(self) -> None:
        if self._child is not None and self._child.returncode is None:
            self._child.kill()

    async def end(self) -> None:
        """Gone, and nothing more is written, when this returns."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            child.kill()
        await child.wait()
        if child.stdin is not None:
            child.stdin.close()
