"""Spark's driver: a JVM that this process starts, and starts anew when it is gone."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from barnabas.pipelines.running.settings import HEAP_AT_START, MALLOC_ARENAS
from barnabas.pipelines.spark.startup.jvm import JAVA_OPTIONS

T = TypeVar("T")
ENDED_WITHIN_S = 30.0


# Says of every batch that took longer than its trigger that it did; a query that catches up has many of them.
TALKATIVE = "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor"


def start_driver(name: str, master: str | None, conf: Mapping[str, str], nice: int = 0) -> Any:
    """`nice` is how much lower its processes stand than this one, which answers while they compute."""
    from barnabas.pipelines.spark.session import active_here, session

    settings = in_little_memory(conf) if (master or "local").startswith("local") else dict(conf)
    spark: Any = active_here(in_lower_thread(lambda: session(name, master=master, conf=settings), nice))
    log4j = spark._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(TALKATIVE, log4j.Level.ERROR)
    return spark


def in_little_memory(conf: Mapping[str, str]) -> dict[str, str]:
    """The heap begins small and grows as it is needed, where it would begin with a 64th of the machine's memory."""
    os.environ.setdefault("MALLOC_ARENA_MAX", MALLOC_ARENAS)
    return {**conf, JAVA_OPTIONS: f"{HEAP_AT_START} {conf.get(JAVA_OPTIONS, '')}".strip()}


def in_lower_thread(work: Callable[[], T], nice: int) -> T:
    """Processes that are begun inherit the priority of the thread that begins them; a thread of its own gives up no
    more than its own."""

    def run() -> T:
        own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + nice)
        return work()

    with ThreadPoolExecutor(1, thread_name_prefix="sql-driver") as thread:
        return thread.submit(run if nice else work).result()


def process_of(spark: Any) -> Any:
    """The JVM of a session; None if it is not a child of this process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway if SparkContext._active_spark_context is spark.sparkContext else None
    return getattr(gateway, "proc", None)


def is_gone(spark: Any) -> bool:
    process = process_of(spark)
    return process is not None and process.poll() is not None


def abandon(spark: Any) -> None:
    """Ends the driver of a session that does not answer, so that its queries do not go on beside those of a new one.

    PySpark keeps the way to its driver for the whole process; without it the next session starts a new one. A driver
    that another session has begun since is left alone.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not spark.sparkContext:
        return
    gateway, process = SparkContext._gateway, process_of(spark)
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    if process is not None:
        process.kill()
        process.wait(ENDED_WITHIN_S)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
    if gateway is not None:
        with contextlib.suppress(Exception):  # py4j's, of connections that are closed already
            gateway.close()
