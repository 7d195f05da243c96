"""The supervisor with drivers that are small programs of ours: restarts, stops, locks, and what is left of the dead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.pipelines.running import status as statuses
from barnabas.pipelines.running.backoff import Backoff
from barnabas.pipelines.running.launch import Launch
from barnabas.pipelines.running.lock import RunLock, holder, is_running
from barnabas.pipelines.running.place import Place, is_name, places, state_directory
from barnabas.pipelines.running.status import QueryStatus, Status
from barnabas.pipelines.running.supervisor import Supervisor

WAIT_S = 30.0

# A driver: `report(...)` tells, `stopped()` waits until it is asked to stop; `number` counts the starts.
DRIVER = """
import json, os, sys, subprocess, time
from pathlib import Path
launch = json.loads(sys.argv[-1])
starts = Path(launch["checkpoints"]) / "starts"
starts.parent.mkdir(exist_ok=True)
number = int(starts.read_text()) + 1 if starts.exists() else 1
starts.write_text(str(number))
def report(**told): os.write(launch["report_descriptor"], (json.dumps(told) + "\\n").encode())
def runs(): report(queries=[{"name": "q", "batch": number, "rows": 5, "lag": 2, "unknown": 1}])
def stopped(): sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none yet, a pipeline that has run has one made, and its last sentence tells so."""
    monkeypatch.setenv("BARNABAS_SPARK_ARCHIVE", "off")


class Heard:
    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.output = b""
        self.details: list[str] = []

    def show(self, status: Status) -> None:
        pass

    def tell(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def printed(self, output: bytes) -> None:
        self.output += output

    def detail(self, text: str) -> None:
        self.details.append(text)


class Running:
    """A supervisor on a thread."""

    def __init__(self, directory: Path, driver: str, **more: object) -> None:
        program = directory / "driver.py"
        program.write_text(DRIVER + driver)
        self.place = Place(directory / "state", "plant")
        self.heard = Heard()
        lock = RunLock.take(self.place)
        assert lock is not None
        self.lock = lock
        launch = Launch(
            name="plant",
            app="app.py",
            checkpoints=str(directory / "checkpoints"),
            drain_file=str(self.place.drain_file),
            stop_timeout_s=5,
        )
        self.supervisor = Supervisor(
            self.place,
            launch,
            lock,
            self.heard,
            driver=(sys.executable, str(program)),
            backoff=Backoff(first_s=0.01),
            **more,  # type: ignore[arg-type]
        )
        self.exit_code: int | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.exit_code = self.supervisor.run()

    def told_state(self) -> str | None:
        """As others read it: the supervisor itself knows of a new state a moment before it is in the file."""
        status = statuses.read(self.place)
        return None if status is None else status.state

    def end(self) -> int | None:
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()
        self.lock.release()
        return self.exit_code


def wait(holds: Callable[[], object]) -> None:
    ends = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """A dead process that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_driver_that_is_killed_or_fails_is_started_again_and_the_last_word_is_kept(tmp_path: Path) -> None:
    running = Running(
        tmp_path,
        """
runs()
print("start", number, flush=True)
if number == 1: os.kill(os.getpid(), 9)
if number == 2: report(failure={"sentence": "no broker", "final": False, "query": "q"}); sys.exit(1)
if number == 3: sys.exit(7)
stopped()
""",
    )
    wait(lambda: running.heard.output.count(b"start") == 4)
    wait(lambda: running.told_state() == "running")
    status = statuses.read(running.place)
    assert status is not None
    assert (status.state, status.restarts, status.failure) == ("running", 3, "the driver ended with exit code 7")
    assert status.queries == (QueryStatus(name="q", batch=4, rows=5, lag=2),)
    assert [each.name for each in places(running.place.state)] == ["plant"]
    running.place.stop_file.touch()
    assert running.end() == 0
    told = running.heard.sentences
    assert "the driver was killed by SIGKILL; starting again in 0 s" in told
    assert "query q: no broker; starting again in 0 s" in told
    assert told[-1] == "stopped"
    after = statuses.read(running.place)
    assert after is not None
    assert (after.state, after.driver_pid, after.queries[0].active) == ("stopped", None, False)
    assert not running.place.stop_file.exists()


def test_a_failure_that_never_heals_ends_the_run_with_its_sentence(tmp_path: Path) -> None:
    running = Running(
        tmp_path, 'report(failure={"sentence": "a wrong option", "final": True, "detail": "Traceback"}); sys.exit(1)'
    )
    assert running.end() == 1
    assert running.heard.sentences == ["starting Spark", "a wrong option"]
    assert running.heard.details == []
    status = statuses.read(running.place)
    assert status is not None
    assert (status.state, status.failure) == ("failed", "a wrong option")


def test_with_verbose_the_traceback_is_told_too(tmp_path: Path) -> None:
    driver = 'report(failure={"sentence": "s", "final": True, "detail": "Traceback ..."}); sys.exit(3)'
    running = Running(tmp_path, driver, verbose=True)
    assert running.end() == 3
    assert running.heard.details == ["Traceback ..."]


def test_after_so_many_failures_in_a_row_it_gives_up(tmp_path: Path) -> None:
    running = Running(tmp_path, "sys.exit(5)", restarts_max=2)
    assert running.end() == 1
    assert (tmp_path / "checkpoints" / "starts").read_text() == "3"


def test_queries_that_come_to_their_end_finish_the_pipeline(tmp_path: Path) -> None:
    running = Running(tmp_path, "runs()")
    assert running.end() == 0
    assert running.supervisor.status.state == "finished"


def test_what_a_dead_driver_leaves_running_is_ended_before_the_next_one_starts(tmp_path: Path) -> None:
    running = Running(
        tmp_path,
        """
if number == 1:
    left = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
    Path(launch["checkpoints"], "left").write_text(str(left.pid))
    time.sleep(0.2)
    os.kill(os.getpid(), 9)
runs()
stopped()
""",
    )
    wait(lambda: running.supervisor.status.state == "running")
    assert not lives(int((tmp_path / "checkpoints" / "left").read_text()))
    running.supervisor.ask_to_stop()
    assert running.end() == 0


def test_a_driver_that_does_not_stop_is_killed_when_it_is_asked_twice(tmp_path: Path) -> None:
    running = Running(tmp_path, "runs()\nwhile True: time.sleep(1)")
    wait(lambda: running.supervisor.status.state == "running")
    running.supervisor.ask_to_stop()
    wait(lambda: running.supervisor.status.state == "stopping")
    running.supervisor.ask_to_stop()
    assert running.end() == 0


def test_while_it_waits_for_the_next_start_it_can_be_stopped(tmp_path: Path) -> None:
    running = Running(tmp_path, "sys.exit(1)")
    running.supervisor._backoff = Backoff(first_s=600, most_s=600)
    wait(lambda: running.supervisor.status.state == "waiting")
    running.place.stop_file.touch()
    assert running.end() == 0
    assert running.heard.sentences[-1] == "stopped"


def test_one_run_of_a_name_and_a_number_of_a_process_that_is_long_gone_means_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, "plant")
    place.directory.mkdir()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    place.lock_file.write_text(str(gone.pid))
    statuses.write(place, Status(name="plant", state="running", pid=gone.pid))
    status = statuses.read(place)
    assert status is not None
    assert status.state == "killed"
    lock = RunLock.take(place)
    assert lock is not None
    assert holder(place) == os.getpid()
    assert RunLock.take(place) is None
    assert is_running(place)
    lock.release()
    assert not is_running(place)


def test_a_run_whose_supervisor_was_killed_lasts_until_its_driver_has_ended(tmp_path: Path) -> None:
    """The next one waits for it, so that two drivers never share a checkpoint."""
    (tmp_path / "driver.py").write_text(DRIVER + "runs()\nstopped()\ntime.sleep(1)\n")
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from barnabas.pipelines.running.launch import Launch\n"
        "from barnabas.pipelines.running.lock import RunLock\n"
        "from barnabas.pipelines.running.place import Place\n"
        "from barnabas.pipelines.running.supervisor import Supervisor\n"
        "from barnabas.cli.pipeline_screen import Lines\n"
        f"place = Place(Path({str(tmp_path)!r}), 'plant')\n"
        "launch = Launch(name='plant', app='a', checkpoints=str(place.checkpoints), drain_file=str(place.drain_file))\n"
        f"driver = (sys.executable, {str(tmp_path / 'driver.py')!r})\n"
        "Supervisor(place, launch, RunLock.take(place), Lines('plant', 1), driver=driver).run()\n"
    )
    place = Place(tmp_path, "plant")
    supervisor = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)

    def runs() -> bool:
        status = statuses.read(place)
        return status is not None and status.state == "running"

    wait(runs)
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    driver_pid = json.loads(place.status_file.read_text())["driver_pid"]
    lock = RunLock.take(place)
    assert lock is not None
    lock.release()
    assert not lives(driver_pid)


def test_a_status_that_is_no_status_is_none(tmp_path: Path) -> None:
    place = Place(tmp_path, "plant")
    assert statuses.read(place) is None
    place.directory.mkdir()
    place.status_file.write_text('{"name": ')
    assert statuses.read(place) is None


def test_names_are_names_of_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [name for name in ("plant", "a.b-c_1", "../x", "", "a/b", "-x", ".x", "x.lock") if is_name(name)] == [
        "plant",
        "a.b-c_1",
    ]
    monkeypatch.delenv("BARNABAS_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directory() == tmp_path / "barnabas" / "pipelines"
    monkeypatch.setenv("BARNABAS_STATE", str(tmp_path / "here"))
    assert state_directory() == tmp_path / "here"
    assert state_directory(str(tmp_path)) == tmp_path
