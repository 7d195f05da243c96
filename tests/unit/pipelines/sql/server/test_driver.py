from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
from pyspark import SparkContext
from pyspark.sql import SparkSession

from barnabas.pipelines.sql.server.driver import abandon, in_little_memory, in_lower_thread


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session whose JVM is a process that waits for the end of its standard input; PySpark's own is set aside."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        context = SimpleNamespace()
        session = SimpleNamespace(sparkContext=context, process=process)
        monkeypatch.setattr(SparkContext, "_active_spark_context", context)
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process, close=lambda: None))
        monkeypatch.setattr(SparkContext, "_jvm", object())
        monkeypatch.setattr(SparkSession, "_instantiatedSession", session)
        yield session
        process.kill()


def test_a_driver_that_is_abandoned_ends(running: Any) -> None:
    abandon(running)
    assert running.process.returncode == -9
    assert SparkContext._active_spark_context is SparkContext._gateway is SparkSession._instantiatedSession is None


def test_the_driver_of_another_session_is_left_alone(running: Any) -> None:
    abandon(SimpleNamespace(sparkContext=SimpleNamespace()))
    assert running.process.poll() is None
    assert SparkContext._active_spark_context is running.sparkContext
    assert SparkContext._gateway.proc is running.process


@pytest.mark.parametrize("nice", [0, 3])
def test_processes_of_the_driver_stand_lower_and_nobody_else_does(nice: int) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    words = [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"]
    found = in_lower_thread(lambda: subprocess.run(words, capture_output=True, check=True).stdout, nice)
    assert int(found) == min(own + nice, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


def test_the_driver_begins_with_a_small_heap_and_what_the_file_says_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    options = "spark.driver.extraJavaOptions"
    assert in_little_memory({"spark.a": "b"}) == {"spark.a": "b", options: "-Xms128m"}
    assert in_little_memory({options: "-Xms1g"})[options] == "-Xms128m -Xms1g"  # of two the JVM takes the last
    assert os.environ["MALLOC_ARENA_MAX"] == "7"
