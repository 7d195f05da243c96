"""The worker's end of the plane: starts the process when the first connector runs, and again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.pipelines.connect.plane.orders import EVENTS, Job

log = logging.getLogger(__name__)
AGAIN_S = 1.0
AGAIN_MAX_S = 60.0
END_S = 20.0
LINE_MAX = 64 * 1024 * 1024


class Plane:
    """`on_event` is called in the loop."""

    def __init__(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._on_event = on_event
        self._process: asyncio.subprocess.Process | None = None
        self._jobs: dict[str, Job] = {}
        self._stopping: dict[int, asyncio.Future[None]] = {}
        self._stop_id = 0
        self._closing = False
        self._watch: asyncio.Task[None] | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="barnabas-connect-"))

    def start(self, job: Job) -> None:
        self._jobs[job.name] = job
        if self._watch is None:
            self._watch = asyncio.create_task(self._run())
        self._order(do="start", job=job.encode())

    def pause(self, name: str, paused: bool) -> None:
        self._order(do="pause" if paused else "resume", name=name)

    def restart(self, name: str, task: int) -> None:
        self._order(do="restart", name=name, task=task)

    async def stop(self, name: str) -> None:
        """Returns when no turn of the connector is under way any more."""
        if self._jobs.pop(name, None) is not None and self._process is not None:
            await self._answer_to(do="stop", name=name)

    async def hold(self) -> None:
        """Returns when no turn of any connector is under way; none begins before `release`."""
        if self._process is not None:
            await self._answer_to(do="hold")

    def release(self) -> None:
        self._order(do="release")

    async def _answer_to(self, **order: Any) -> None:
        self._stop_id += 1
        stopped = self._stopping[self._stop_id] = asyncio.get_running_loop().create_future()
        self._order(**order, id=self._stop_id)
        await stopped

    async def close(self) -> None:
        self._closing = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                async with asyncio.timeout(END_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        if self._watch is not None:
            await self._watch
        shutil.rmtree(self._directory, ignore_errors=True)

    def _order(self, **order: Any) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def _run(self) -> None:
        wait_s = AGAIN_S
        while not self._closing:
            began = asyncio.get_running_loop().time()
            await self._live()
            self._process = None
            for waiting in self._stopping.values():
                if not waiting.done():
                    waiting.set_result(None)
            self._stopping.clear()
            if self._closing:
                return
            if asyncio.get_running_loop().time() - began > AGAIN_MAX_S:
                wait_s = AGAIN_S
            log.error("the process with Spark ended; starting it again in %g s", wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, AGAIN_MAX_S)

    async def _live(self) -> None:
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "barnabas.pipelines.connect.plane.driver", str(self._directory)]
        log_file = os.environ.get("BARNABAS_CONNECT_SPARK_LOG", os.devnull)
        with open(log_file, "ab") as errors:  # noqa: ASYNC230
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                pass_fds=(writing,),
                env=os.environ | {EVENTS: str(writing)},
                start_new_session=True,
            )
        os.close(writing)
        for job in self._jobs.values():
            self._order(do="start", job=job.encode())
        reader = asyncio.StreamReader(limit=LINE_MAX)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
        )
        try:
            while line := await reader.readline():
                self._heard(json.loads(line))
        finally:
            transport.close()
        await self._process.wait()

    def _heard(self, event: dict[str, Any]) -> None:
        if event["event"] == "stopped":
            waiting = self._stopping.pop(event["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        elif event["event"] == "trouble":
            log.error("%s", event["text"])
        else:
            self._on_event(event)
