"""Python processes out of one that has imported everything: their words, environment, streams, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipelines.spark.startup import fork_launcher, fork_server, forked_workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")

PROGRAM = """
import os, random, sys
import numpy
print(sys.argv[1:], os.environ["GREETING"], os.getcwd(), sys.stdin.read(), "pyarrow" in sys.modules, flush=True)
print(random.random(), numpy.random.random(), file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYSPARK_PYTHON", raising=False)
        patch.setattr(fork_server, "_started", None)
        made = fork_server.launcher()
        assert made != sys.executable
        assert fork_server.launcher() == made
        assert fork_server._started is not None
        process = fork_server._started[0]
        yield made
        fork_server._end(*fork_server._started)
        assert process.returncode == 0


def run(python: str, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"GREETING": "hello", "PYTHONPATH": str(directory / "lib")}
    return subprocess.run(
        [python, *words],
        input="in",
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment,
        timeout=60,
        check=False,
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "told.py").write_text(PROGRAM)
    (tmp_path / "here.py").write_text("import told")
    return tmp_path


def test_a_module_is_run_as_the_interpreter_would_run_it(python: str, directory: Path) -> None:
    told = run(python, directory, "-m", "told", "a", "b c")
    assert told.stdout == f"['a', 'b c'] hello {directory} in True\n"
    assert run(python, directory, "-m", "here").stdout.startswith("[] hello")  # the directory it is in counts, too


def test_what_ended_before_it_was_watched_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    begun: list[object] = []
    monkeypatch.setattr(fork_launcher, "ask", lambda address, words: ended.pid)
    monkeypatch.setattr(os, "execv", lambda *given: begun.append(given))
    monkeypatch.setattr(sys, "argv", ["python", "-m", "told"])
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        fork_launcher.launch("nowhere", sys.executable)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert begun == []


def test_two_of_them_have_different_chances(python: str, directory: Path) -> None:
    first, second = (run(python, directory, "-m", "told").stderr.split() for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_other_words_are_for_the_interpreter(python: str, directory: Path) -> None:
    told = run(python, directory, "-c", "import sys; print(sys.executable)")
    assert told.stdout.strip() == sys.executable


def test_who_is_asked_to_end_hands_it_on(python: str, directory: Path) -> None:
    (directory / "sleeper.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    launched = subprocess.Popen([python, "-m", "sleeper"], cwd=directory, stdout=subprocess.PIPE, text=True)
    assert launched.stdout is not None
    worker = int(launched.stdout.readline())
    assert worker != launched.pid
    launched.send_signal(signal.SIGTERM)
    assert launched.wait(30) == 0
    launched.stdout.close()
    ends = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text().split()[2]:
        assert time.monotonic() < ends


def test_without_a_server_it_becomes_the_interpreter(python: str, directory: Path) -> None:
    alone = directory / "python"
    alone.write_text(Path(python).read_text().replace("/socket", "/nobody"))
    alone.chmod(0o700)
    told = run(str(alone), directory, "-m", "told")
    assert (told.returncode, told.stdout) == (3, f"[] hello {directory} in False\n")


def test_behind_the_end_of_the_driver_nothing_is_done(python: str, directory: Path) -> None:
    late = directory / "python"
    late.write_text(Path(python).read_text().replace("/socket", "-removed/socket"))
    late.chmod(0o700)
    told = run(str(late), directory, "-m", "told")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


def test_the_users_choice_of_python_and_the_switch_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_started", None)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert fork_server.launcher() == "/opt/python"
    monkeypatch.setenv("PYSPARK_PYTHON", "/tmp/barnabas-forks-x1y2/python")  # of the program that started this one
    monkeypatch.setenv("BARNABAS_SPARK_FORKS", "off")
    assert fork_server.launcher() == sys.executable
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert fork_server.launcher() == sys.executable
    assert not fork_server._fits_a_shebang("/with a space/python")


@pytest.mark.parametrize(
    ("error", "is_told"), [(BrokenPipeError, False), (ConnectionResetError, False), (OSError, True)]
)
def test_workers_that_spark_hung_up_on_print_no_traceback(
    error: type[Exception], is_told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(traceback, "print_exc", traceback.print_exc)
    forked_workers.keep_quiet_of_hang_ups()
    try:
        raise error
    except error:
        traceback.print_exc()
    assert ("Traceback" in capsys.readouterr().err) is is_told
