"""A node in a process of its own, as the tests see it: start, ready, stop, kill."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class StartFailed(Exception):
    """The node did not come up; the message holds what it said."""


class NodeProcess:
    """The child ends when our end of its standard input closes, so that it never outlives the test run."""

    def __init__(self, arguments: list[str], log_path: Path, timeout_s: float) -> None:
        self.log_path = log_path
        ready_read, ready_write = os.pipe()
        command = [sys.executable, "-m", "barnabas", "server", "start", *arguments]
        with open(log_path, "ab") as log:
            self._child = subprocess.Popen(
                [*command, "--ready-fd", str(ready_write), "--stop-on-eof"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(ready_write,),
                start_new_session=True,
            )
        os.close(ready_write)
        try:
            self.ready = self._wait_ready(ready_read, timeout_s)
        finally:
            os.close(ready_read)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def _wait_ready(self, pipe: int, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        said = b""
        while not said.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                self.kill()
                raise StartFailed(f"the node was not ready within {timeout_s} s: {self._last_words()}")
            chunk = os.read(pipe, 65536)
            if not chunk:
                self._child.wait()
                self._close()
                raise StartFailed(self._last_words())
            said += chunk
        ready: dict[str, Any] = json.loads(said)
        return ready

    def _last_words(self) -> str:
        return self.log_path.read_text(errors="replace").strip()[-2000:] or f"exit code {self._child.poll()}"

    def stop(self, timeout_s: float) -> int:
        if self.running:
            self._child.send_signal(signal.SIGTERM)
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._close()
        return code

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()
        self._close()

    def _close(self) -> None:
        if self._child.stdin:
            self._child.stdin.close()
