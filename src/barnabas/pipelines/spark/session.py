"""`session()`: a SparkSession with the settings that were measured to matter, and whatever the user says instead.

    spark = barnabas.spark.session("my pipeline", master="local[4]", conf={"spark.sql.shuffle.partitions": 8})

With `spark-submit` the master and the JVM are the submitter's, and the rest holds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.spark.fork_server import launcher
from barnabas.pipelines.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# Latency of a micro-batch, exactly-once sinks, and no bars and pages that nobody looks at.
SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.authenticate.socketTimeout": "60s",  # 15 s are too few for a worker to start on a busy machine
    "spark.speculation": "false",
    "spark.ui.showConsoleProgress": "false",
}

# On one machine: two shuffle partitions instead of 200, no page on a port, and no name of the machine to be resolved.
LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

# Not -XX:TieredStopAtLevel=1: a JVM with C1 alone starts sooner, but the source then costs it 2.3 us a row, not 1.1.
# But C2 begins ten times later than it would: a third of the CPU of a start is its work on what runs only then.
# Hadoop starts a process for every file it makes, to set its mode: without the JVM's helper in between.
START_UP_OPTIONS = (
    "-Djdk.lang.Process.launchMechanism=VFORK "
    "-XX:+UseSerialGC -Xshare:auto -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)


def session(
    app_name: str = "barnabas",
    *,
    master: str | None = None,
    conf: Mapping[str, object] | None = None,
    quick_start: bool = True,
) -> SparkSession:
    """The session, started or the one that runs. `quick_start` makes the JVM's start-up archive once and uses it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # its settings are as they were meant, but for what is said here
        return SparkSession.builder.config(
            map={name: _text(value) for name, value in (conf or {}).items()}
        ).getOrCreate()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        find_java()
    settings = settings_for(master, conf or {}, submitted=submitted, quick_start=quick_start)
    if submitted:
        settings = {name: value for name, value in settings.items() if name in (conf or {}) or not _is_submitted(name)}
    if settings.get("spark.master", "").startswith("local"):
        # Spark looks for python3 on the PATH otherwise.
        os.environ["PYSPARK_PYTHON"] = launcher() if quick_start else os.environ.get("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if settings.get("spark.master", "").startswith("local"):
        write_no_checksums(spark)
    return spark


def write_no_checksums(spark: SparkSession) -> None:
    """A checkpoint gets two files a batch. A .crc beside each is as much work again, and a process for its mode."""
    context: Any = spark.sparkContext
    local = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())
    local.setWriteChecksum(False)


def settings_for(
    master: str | None, conf: Mapping[str, object], *, submitted: bool, quick_start: bool
) -> dict[str, str]:
    """What the session is started with; with `submitted` master and JVM are the submitter's."""
    given = {name: _text(value) for name, value in conf.items()}
    if master is not None:
        given["spark.master"] = master
    settings = dict(SETTINGS)
    if not submitted:
        settings["spark.master"] = given.get("spark.master") or os.environ.get("MASTER") or "local[*]"
        if settings["spark.master"].startswith("local"):
            settings |= LOCAL_SETTINGS
            settings[JAVA_OPTIONS] = _java_options(given.pop(JAVA_OPTIONS, ""), quick_start)
    return settings | given


def _is_submitted(name: str) -> bool:
    """Whether `spark-submit` or its file of defaults has set it."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return SparkConf().contains(name)


def _java_options(given: str, quick_start: bool) -> str:
    """The user's come last, so that they win."""
    if not quick_start:
        return given
    from barnabas.pipelines.spark.archive import archive

    made = archive()
    shared = f"-XX:SharedArchiveFile={made}" if made is not None else ""
    return " ".join(filter(None, (START_UP_OPTIONS, shared, given)))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
