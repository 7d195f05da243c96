"""Runs a pipeline: starts its driver, starts it again after a failure, and ends it when it is asked to.

The driver is a process in a session of its own with a pipe for what it reports, one for what the file prints, and one
by which it is asked to stop and by whose end it sees that its supervisor is gone. Whatever is left of a driver that
died, its JVM and Python workers, is killed before the next one starts: two of them never share a checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from barnabas.pipelines.running import status as statuses
from barnabas.pipelines.running.backoff import Backoff
from barnabas.pipelines.running.launch import Launch
from barnabas.pipelines.running.lock import RunLock
from barnabas.pipelines.running.place import Place
from barnabas.pipelines.running.processes import end_session
from barnabas.pipelines.running.status import Status, query_status
from barnabas.pipelines.spark.draining import DRAIN_FILE
from barnabas.pipelines.spark.option_values import SERVERS
from barnabas.pipelines.spark.startup.archive import MAKING, make_later
from barnabas.pipelines.spark.startup.fork_server import SCRATCH

DRIVER = (sys.executable, "-m", "barnabas.pipelines.running.driver")
TICK_S = 0.2
WRITE_S = 1.0
STOP_GRACE_S = 25.0  # for the file and the JVM to end, behind the time that queries have
LOG_BYTES_MAX = 16 << 20


class Audience(Protocol):
    """Who is told what happens."""

    def show(self, status: Status) -> None: ...
    def tell(self, sentence: str) -> None: ...
    def printed(self, output: bytes) -> None: ...
    def detail(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a driver ended. Without a failure it came to its end, or was asked to."""

    exit_code: int
    failure: str | None
    final: bool
    ran_s: float  # since its queries ran


class Supervisor:
    def __init__(
        self,
        place: Place,
        launch: Launch,
        lock: RunLock,
        audience: Audience,
        *,
        restarts_max: int | None = None,
        backoff: Backoff | None = None,
        verbose: bool = False,
        driver: Sequence[str] = DRIVER,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._place, self._launch, self._lock, self._audience = place, launch, lock, audience
        self._restarts_max, self._verbose, self._now_ms = restarts_max, verbose, now_ms
        self._backoff = backoff or Backoff()
        self._driver = driver
        self._stop_asked = 0
        self._written_at = 0.0
        self.status = Status(
            name=place.name,
            pid=os.getpid(),
            app=launch.app,
            arguments=launch.arguments,
            master=launch.master or "",
            bootstrap_servers=launch.bootstrap_servers,
            started_at_ms=now_ms(),
            state_since_ms=now_ms(),
        )

    def ask_to_stop(self) -> None:
        """From a signal. The second time nothing is waited for."""
        self._stop_asked += 1

    def run(self) -> int:
        self._place.directory.mkdir(parents=True, exist_ok=True)
        self._place.stop_file.unlink(missing_ok=True)
        try:
            return self._run()
        finally:
            self._place.stop_file.unlink(missing_ok=True)
            self._make_archive()

    def _make_archive(self) -> None:
        """For the next start: a pipeline that never ran needs none, and one on a Spark of several machines neither."""
        with contextlib.suppress(Exception):
            if self.status.queries and (self._launch.master or "local").startswith("local") and make_later():
                self._audience.tell(MAKING)

    def _run(self) -> int:
        while True:
            outcome = self._run_driver()
            if self._stopping():
                self._enter("stopped", driver_pid=None)
                self._audience.tell("stopped")
                return 0
            if outcome.failure is None:
                self._enter("finished", driver_pid=None)
                self._audience.tell("finished: every query came to its end")
                return 0
            pause_s = self._backoff.failed(outcome.ran_s)
            given_up = self._restarts_max is not None and self._backoff.failures > self._restarts_max
            if outcome.final or given_up:
                self._enter("failed", failure=outcome.failure, driver_pid=None)
                self._audience.tell(outcome.failure)
                return outcome.exit_code or 1
            if not self._wait(outcome.failure, pause_s):
                self._enter("stopped")
                self._audience.tell("stopped")
                return 0
            self._launch = replace(self._launch, resumed=self._launch.resumed or outcome.ran_s > 0)

    def _wait(self, failure: str, pause_s: float) -> bool:
        """Until it is time to start again; false if it is not to."""
        at_ms = self._now_ms() + round(pause_s * 1000)
        self._audience.tell(f"{failure.removesuffix('.')}; starting again in {pause_s:.0f} s")
        self._enter("waiting", failure=failure, next_start_at_ms=at_ms, driver_pid=None)
        ends = time.monotonic() + pause_s
        while time.monotonic() < ends:
            if self._stopping():
                return False
            self._audience.show(self.status)
            time.sleep(TICK_S)
        self._enter("starting", restarts=self.status.restarts + 1, next_start_at_ms=None, queries=(), waits_for=None)
        return True

    def _stopping(self) -> bool:
        return self._stop_asked > 0 or self._place.stop_file.exists()

    def _enter(self, state: str, **more: Any) -> None:
        self.status = replace(self.status, state=state, state_since_ms=self._now_ms(), **more)
        self._tell_status(now=True)

    def _tell_status(self, now: bool = False) -> None:
        if now or time.monotonic() - self._written_at >= WRITE_S:
            self._written_at = time.monotonic()
            with contextlib.suppress(OSError):  # a full disk does not stop a pipeline
                statuses.write(self._place, self.status)
            self._audience.show(self.status)

    def _run_driver(self) -> Outcome:
        self._audience.tell("starting Spark")
        scratch = tempfile.mkdtemp(prefix="barnabas-run-")
        try:
            return self._run_driver_in(scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _run_driver_in(self, scratch: str) -> Outcome:
        run = _Run(self._start_driver(scratch))
        self.status = replace(self.status, driver_pid=run.process.pid)
        self._tell_status(now=True)
        deadline: float | None = None
        while run.is_open:
            run.take(TICK_S, self._heard, self._audience.printed)
            if self._stopping() and deadline is None:
                self._enter("stopping")
                self._audience.tell("stopping: batches at hand are finished first")
                run.ask_to_stop()
                deadline = time.monotonic() + self._launch.stop_timeout_s + STOP_GRACE_S
            if deadline is not None and (self._stop_asked > 1 or time.monotonic() > deadline):
                break
            self._tell_status()
        return run.end(self._verbose, self._audience)

    def _start_driver(self, scratch: str) -> tuple[subprocess.Popen[bytes], int]:
        self._place.drain_file.unlink(missing_ok=True)
        reads, writes = os.pipe()
        launch = replace(self._launch, report_descriptor=writes, scratch=scratch)
        command = [*self._driver, launch.to_json()]
        environment = os.environ | {DRAIN_FILE: launch.drain_file, SERVERS: launch.bootstrap_servers}
        environment |= {"PYTHONUNBUFFERED": "1", SCRATCH: scratch}
        environment.setdefault("SPARK_LOCAL_DIRS", scratch)
        log_file = self._place.log_file
        if log_file.exists() and log_file.stat().st_size > LOG_BYTES_MAX:
            log_file.replace(log_file.with_suffix(".log.1"))
        with log_file.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if self._verbose else log,
                env=environment,
                pass_fds=(writes, self._lock.descriptor),
                start_new_session=True,
            )
        os.close(writes)
        return process, reads

    def _heard(self, run: _Run, told: dict[str, Any]) -> None:
        if (queries := told.get("queries")) is not None:
            self.status = replace(self.status, queries=tuple(query_status(query) for query in queries))
            if self.status.queries and run.running_since is None and self.status.state == "starting":
                run.running_since = time.monotonic()
                self._enter("running", waits_for=None)
                names = ", ".join(query.name for query in self.status.queries)
                self._audience.tell(f"running {names}")
        if (brokers := told.get("brokers")) is not None:
            self.status = replace(self.status, bootstrap_servers=brokers)
        if (missing := told.get("waits_for")) is not None:
            self.status = replace(self.status, waits_for=missing)
            self._audience.tell(f"{missing.removesuffix('.')}; waiting for it")
        if (first_ms := told.get("first_result_ms")) is not None:
            self.status = replace(self.status, first_result_ms=first_ms)
            self._tell_status(now=True)
            self._audience.tell(f"first batch done after {first_ms / 1000:.1f} s")
        if (failure := told.get("failure")) is not None:
            run.failure = failure


class _Run:
    """One driver, as long as it lasts."""

    def __init__(self, started: tuple[subprocess.Popen[bytes], int]) -> None:
        self.process, self._reports = started
        assert self.process.stdout is not None
        self._printed = self.process.stdout.fileno()
        self.running_since: float | None = None
        self.failure: dict[str, Any] | None = None
        self._pending = b""
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._reports, self._printed):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)

    @property
    def is_open(self) -> bool:
        """Its end is the end of its process: others may have inherited what it prints to."""
        return self.process.poll() is None

    def take(
        self, wait_s: float, heard: Callable[[_Run, dict[str, Any]], None], printed: Callable[[bytes], None]
    ) -> None:
        for key, _ in self._selector.select(wait_s) if self._selector.get_map() else self._sleep(wait_s):
            content = _read(key.fd)
            if content is None:
                continue
            if not content:
                self._selector.unregister(key.fd)
            elif key.fd == self._printed:
                printed(content)
            else:
                *lines, self._pending = (self._pending + content).split(b"\n")
                for line in lines:
                    heard(self, json.loads(line))

    def _sleep(self, wait_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        time.sleep(wait_s)
        return []

    def ask_to_stop(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(b"stop\n")
            self.process.stdin.flush()

    def end(self, verbose: bool, audience: Audience) -> Outcome:
        """Nothing of it goes on after this."""
        end_session(self.process.pid, self.process)
        code = self.process.wait()
        self.take(0, _take_failure, audience.printed)
        self._selector.close()
        os.close(self._reports)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        ran_s = 0.0 if self.running_since is None else time.monotonic() - self.running_since
        if self.failure is not None:
            if verbose:
                audience.detail(str(self.failure.get("detail", "")))
            return Outcome(max(code, 1), _told(self.failure), bool(self.failure["final"]), ran_s)
        if code == 0:
            return Outcome(0, None, False, ran_s)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return Outcome(1, f"the driver {how}", False, ran_s)


def _take_failure(run: _Run, told: dict[str, Any]) -> None:
    run.failure = told.get("failure", run.failure)


def _told(failure: dict[str, Any]) -> str:
    query = failure.get("query")
    return str(failure["sentence"]) if query is None else f"query {query}: {failure['sentence']}"


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None
