"""Python workers out of one process that has imported everything: Spark's are forked here instead of started.

Spark runs a Python process per query, a daemon per kind of worker, and workers below them: eighteen for one small
pipeline, each of which imports PySpark, Arrow and us before it does anything. Here that is done once, beside the start
of the JVM, and what they have in common is in memory once.

    driver ── starts ──> fork server (this module)        imports, then waits on a socket; ends with the driver
    JVM ── starts ──> launcher ── "-m pyspark.daemon ..." ──> fork server ── forks ──> the worker

The launcher (fork_launcher.py) stands where Spark expects the interpreter. It hands over its words, environment,
directory and standard streams, and stays as long as the worker does; without a server it becomes the interpreter that
was meant, unless the driver has ended: then it ends, too. On Linux, on one machine.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from barnabas.pipelines.spark.startup.workers_python import LAUNCHERS, chosen_by_user

SWITCH = "BARNABAS_SPARK_FORKS"  # "off": Spark starts its Python processes itself
SCRATCH = "BARNABAS_SCRATCH"  # where directories go that are removed with the program; without it, where all do
SHEBANG_MAX = 120

_started: tuple[subprocess.Popen[bytes], Path] | None = None


def launcher() -> str:
    """The executable for Spark's Python workers; the interpreter itself where they can't be forked."""
    global _started
    chosen = chosen_by_user()
    if chosen not in (None, sys.executable):
        return str(chosen)
    if _started is not None and _started[0].poll() is None:
        return str(_started[1] / "python")
    if sys.platform != "linux" or os.environ.get(SWITCH, "").lower() == "off" or not _fits_a_shebang(sys.executable):
        return sys.executable
    _started = _start()
    return str(_started[1] / "python")


def _fits_a_shebang(interpreter: str) -> bool:
    return len(interpreter) < SHEBANG_MAX and not any(each.isspace() for each in interpreter)


def _start() -> tuple[subprocess.Popen[bytes], Path]:
    directory = Path(tempfile.mkdtemp(prefix=LAUNCHERS, dir=os.environ.get(SCRATCH)))
    program = Path(__file__).with_name("fork_launcher.py").read_text()
    executable = directory / "python"
    executable.write_text(
        f"#!{sys.executable} -IS\n{program}\nlaunch({str(directory / 'socket')!r}, {sys.executable!r})\n"
    )
    executable.chmod(0o700)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment.setdefault("PYTHONHASHSEED", "0")  # as spark-submit has it
    # Bound here: who asks while the server imports waits in the queue.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(directory / "socket"))
        listening.listen(128)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "barnabas.pipelines.spark.startup.forked_workers",
                str(listening.fileno()),
                str(directory),
            ],
            stdin=subprocess.PIPE,
            env=environment,
            pass_fds=(listening.fileno(),),
        )
    atexit.register(_end, process, directory)
    return process, directory


def _end(process: subprocess.Popen[bytes], directory: Path) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    shutil.rmtree(directory, ignore_errors=True)
