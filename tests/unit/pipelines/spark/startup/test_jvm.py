from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
from pyspark import SparkContext
from pyspark.sql import SparkSession

from barnabas.pipelines.spark.startup import jvm


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session whose JVM is a process that waits for the end of its standard input; PySpark's own is set aside."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        context = SimpleNamespace()
        session = SimpleNamespace(sparkContext=context, process=process)
        monkeypatch.setattr(SparkContext, "_active_spark_context", context)
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        monkeypatch.setattr(SparkContext, "_jvm", object())
        monkeypatch.setattr(SparkSession, "_instantiatedSession", session)
        yield session
        process.kill()


def test_a_session_that_is_forgotten_takes_its_jvm_with_it(running: Any) -> None:
    jvm.forget(running)
    assert running.process.returncode == -9
    assert SparkContext._active_spark_context is SparkContext._gateway is SparkSession._instantiatedSession is None


def test_the_jvm_of_another_session_is_left_alone(running: Any) -> None:
    jvm.forget(SimpleNamespace(sparkContext=SimpleNamespace()))  # type: ignore[arg-type]
    assert running.process.poll() is None
    assert SparkContext._active_spark_context is running.sparkContext
    assert SparkContext._gateway.proc is running.process
