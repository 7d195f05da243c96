"""The stream processors that are compared, each a program in processes of its own on the same node.

`Barnabas` and `Kafka Streams` keep their process from round to round, so that the JVM is warm; Quix Streams, which has
nothing to warm, starts anew. A side that can't be had here says why in `unavailable`.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from benchmarks.rival_load import LARGE, LARGE_CACHE_BYTES
from tests.support import reference_libs

HERE = Path(__file__).resolve().parent
QUIX_VERSION = "3.28.1"
ANSWER_S = 120
STREAMS_JVM = ("-Xmx1g",)


class Unavailable(Exception):
    """The text says why."""


@dataclass(frozen=True)
class Order:
    """What a side is to do with which topics."""

    workload: str
    name: str
    servers: str
    read: str
    table: str
    written: str

    def words(self, directory: str) -> list[str]:
        return [self.workload, self.name, self.servers, self.read, self.table, self.written, directory]


@dataclass
class Side:
    """A processor of streams. `paced` settings are those that are better where records are few."""

    key: str
    name: str
    share: int = 1  # of the records, for those who would take minutes otherwise
    process: subprocess.Popen[str] | None = None
    directories: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def prepare(self) -> None:
        """Fetches what is missing; raises Unavailable."""

    def start(self, order: Order, *, paced: bool = False) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for directory in self.directories:
            shutil.rmtree(directory, ignore_errors=True)
        self.directories.clear()

    def check(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended; set BENCHMARK_VERBOSE=1 to see why")

    def _directory(self) -> str:
        self.directories.append(tempfile.mkdtemp(prefix=f"barnabas-rival-{self.key}-"))
        return self.directories[-1]

    def _launch(self, command: list[str], **environment: str) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARK_VERBOSE") else subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )

    def _ask(self, *words: str) -> None:
        assert self.process is not None
        stdin, stdout = _pipes(self.process)
        stdin.write(" ".join(words) + "\n")
        stdin.flush()
        if not stdout.readline():
            raise RuntimeError(f"{self.name} ended; set BENCHMARK_VERBOSE=1 to see why")


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


@dataclass
class Barnabas(Side):
    """A session that stays; at a steady pace, as users start it: `barnabas pipeline run`."""

    functions: bool = False
    paced: bool = False

    def start(self, order: Order, *, paced: bool = False) -> None:
        self.paced = paced
        workload = f"{order.workload}-functions" if self.functions else order.workload
        words = [workload, *order.words(self._directory())[1:]]
        path = os.pathsep.join([str(HERE.parent), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
        if paced:
            command = [sys.executable, "-m", "barnabas", "pipeline", "run", str(HERE / "rival_topologies.py")]
            command += ["--name", order.name, "--bootstrap-server", order.servers, "--master", "local[2]"]
            command += ["--", words[0], *words[3:6]]
            self._launch(command, PYTHONPATH=path, BARNABAS_STATE=words[-1])
            return
        if self.process is None:
            self._launch([sys.executable, str(HERE / "rival_topologies.py"), "driver"], PYTHONPATH=path)
        self._ask("start", *words)

    def stop(self) -> None:
        if self.paced:
            self.close()
        else:
            self._ask("stop")


@dataclass
class KafkaStreams(Side):
    guarantee: str = "exactly_once_v2"

    def prepare(self) -> None:
        try:
            reference_libs.java()
            reference_libs.classpath_options(with_streams=True)
        except reference_libs.ReferenceUnavailable as reason:
            raise Unavailable(str(reason)) from None
        compiled()

    def start(self, order: Order, *, paced: bool = False) -> None:
        if self.process is None:
            self._launch([reference_libs.java(), *STREAMS_JVM, *compiled()])
        settings = {"processing.guarantee": self.guarantee}
        if self.guarantee == "at_least_once":
            # By default it would show what is in its caches after 30 s.
            settings |= {"commit.interval.ms": "1000", "consumer.isolation.level": "read_committed"}
            if paced:
                settings |= {"statestore.cache.max.bytes": "0", "producer.linger.ms": "0"}
        words = order.words(self._directory())
        if order.workload == LARGE:
            words[0] = "count"
            settings |= {"statestore.cache.max.bytes": str(LARGE_CACHE_BYTES)}
        self._ask("start", *words, *(f"{key}={value}" for key, value in settings.items()))

    def stop(self) -> None:
        self._ask("stop")


@functools.cache
def compiled() -> list[str]:
    """The options of java with which the program runs: compiled, or from its source where there is a JRE only."""
    source = str(HERE / "java" / "Rival.java")
    options = reference_libs.classpath_options(with_streams=True)
    javac = shutil.which("javac", path=str(Path(reference_libs.java()).parent)) or shutil.which("javac")
    if javac is None:
        return [*options, source]
    classes = tempfile.mkdtemp(prefix="barnabas-rival-classes-")
    done = subprocess.run(
        [javac, "-cp", options[1], "-d", classes, source], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"javac does not compile {source}: {done.stderr.strip()}")
    return [options[0], os.pathsep.join([classes, options[1]]), *options[2:], "Rival"]


@dataclass
class Quix(Side):
    def prepare(self) -> None:
        environment = self._environment()
        if (environment / "made").exists():
            return
        python = str(environment / "bin" / "python")
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(environment)],
            [python, "-m", "pip", "install", "-q", f"quixstreams=={QUIX_VERSION}"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                told = (done.stderr.strip() or "no reason given").splitlines()[-1]
                raise Unavailable(f"Quix Streams {QUIX_VERSION} can't be installed: {told}")
        (environment / "made").touch()

    def start(self, order: Order, *, paced: bool = False) -> None:
        python = str(self._environment() / "bin" / "python")
        self._launch([python, str(HERE / "rival_quix.py"), *order.words(self._directory())], PYTHONPATH="")

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.close()

    def _environment(self) -> Path:
        return reference_libs.cache_dir().parent / f"quix-{QUIX_VERSION}"


def sides() -> list[Side]:
    return [
        Barnabas("barnabas", "Barnabas, exactly once"),
        Barnabas("functions", "by functions", functions=True),
        KafkaStreams("streams-alo", "Kafka Streams, at least once", guarantee="at_least_once"),
        KafkaStreams("streams-eos", "Kafka Streams, exactly once"),
        Quix("quix", "Quix Streams, at least once", share=10),
    ]


def of(keys: list[str]) -> list[Any]:
    return [side for side in sides() if not keys or side.key in keys]
