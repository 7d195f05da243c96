"""A node in a process of its own, as the tests see it: start, ready, stop, kill."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

LAST_WORDS_CHARACTERS = 2000


class StartFailed(Exception):
    """The node did not come up; the message is what it said."""


class NodeProcess:
    """The child ends with us, whatever ends us: our end of its standard input closes, and it has another parent."""

    def __init__(
        self,
        arguments: list[str],
        log_path: Path,
        timeout_s: float,
        program: tuple[str, ...] = ("server", "start"),
        variables: Mapping[str, str] | None = None,
        on_spawned: Callable[[int], None] | None = None,
    ) -> None:
        """`on_spawned` is told the process id before the node is ready."""
        self._log_path = log_path
        ready_read, ready_write = os.pipe()
        command = [sys.executable, "-m", "barnabas", *program, *arguments]
        try:
            with open(log_path, "ab") as log:
                self._log_start = log.tell()
                self._child = subprocess.Popen(
                    [*command, "--ready-fd", str(ready_write), "--stop-with-parent"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=environment(os.environ) | dict(variables or {}),
                    pass_fds=(ready_write,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(ready_read)
            raise
        finally:
            os.close(ready_write)
        if on_spawned is not None:
            on_spawned(self._child.pid)
        try:
            self.ready = self._wait_ready(ready_read, timeout_s)
        except BaseException:
            self.kill()
            raise
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
                raise StartFailed(f"the node was not ready within {timeout_s} s; it said: {self._last_words()}")
            chunk = os.read(pipe, 65536)
            if not chunk:
                self._child.wait()
                raise StartFailed(self._last_words())
            said += chunk
        ready: dict[str, Any] = json.loads(said)
        return ready

    def _last_words(self) -> str:
        """The sentence for which the node has not started or, if it has none, what it has printed since its start."""
        with open(self._log_path, "rb") as log:
            log.seek(self._log_start)
            said = log.read().decode(errors="replace").strip()
        sentence = re.search(r"^barnabas server: (.*)\Z", said, re.MULTILINE)
        return sentence[1] if sentence else said[-LAST_WORDS_CHARACTERS:] or f"exit code {self._child.poll()}"

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

    def send(self, number: int) -> None:
        self._child.send_signal(number)

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()
        self._close()

    def _close(self) -> None:
        if self._child.stdin:
            self._child.stdin.close()


def config_text(value: object) -> str:
    """As server.properties has it."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(config_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Ours without what would configure the node, and without the current directory in the way of its imports."""
    kept = {name: text for name, text in ours.items() if not name.startswith("KAFKA_") and name != "CLUSTER_ID"}
    return kept | {"PYTHONSAFEPATH": "1"}
