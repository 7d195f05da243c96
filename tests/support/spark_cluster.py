"""A real Spark cluster: a standalone master and two workers on this machine.

Each is a JVM, and so are the executors and the driver: they start from the archive and with the quick compiler.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.spark.startup.archive import class_path_of, made_archive
from barnabas.pipelines.spark.startup.java import JavaMissing

pyspark = pytest.importorskip("pyspark")
HOME = Path(pyspark.__file__).parent
LIMIT_S = 240.0


def java_options() -> str:
    try:
        made = made_archive()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
    return quick if made is None else f"{quick} -XX:SharedArchiveFile={made}"


def class_path() -> str:
    made = made_archive()
    return "" if made is None else class_path_of(made)


class SparkCluster:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = self._start(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        found = self._said("master", r"Starting Spark master at (spark://\S+)")
        self.address = found[1]
        self.workers = [self._worker(number) for number in (1, 2)]
        for number in (1, 2):
            self._said(f"worker-{number}", r"Successfully registered with master")

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        return self._start(
            f"worker-{number}", "org.apache.spark.deploy.worker.Worker", self.address,
            "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0",
            "--work-dir", str(self.directory / f"work-{number}"),
        )  # fmt: skip

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
            "SPARK_DAEMON_CLASSPATH": class_path(),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self.directory / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), *command],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self.processes.append(started)
        return started

    def _said(self, name: str, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + LIMIT_S
        log = self.directory / f"{name}.log"
        while time.monotonic() < deadline:
            if found := re.search(pattern, log.read_text(errors="replace")):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{name} did not say {pattern}:\n{log.read_text(errors='replace')[-3000:]}")

    def close(self, kill: Any, descendants: Any) -> None:
        for process in self.processes:
            for pid in [pid for pid, _ in descendants(process.pid)] + [process.pid]:
                kill(pid)
            process.wait()
