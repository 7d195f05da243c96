"""`session()`: a SparkSession with the settings that were measured to matter, and whatever the user says instead.

    spark = barnabas.spark.session("my pipeline", master="local[4]", conf={"spark.sql.shuffle.partitions": 8})

With `spark-submit` the master and the JVM are the submitter's, and the rest holds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.spark.startup import ending, local_files, workers_python
from barnabas.pipelines.spark.startup.fork_server import launcher
from barnabas.pipelines.spark.startup.java import find_java
from barnabas.pipelines.spark.startup.jvm import (
    CLASS_PATH,
    JAVA_OPTIONS,
    StartingJvm,
    command_for,
    kept_command,
    needs_submit,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

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

# On one machine: two shuffle partitions instead of 200, no page on a port and no long words for it about the plan of
# every batch, and no name of the machine to be resolved.
LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

# Not -XX:TieredStopAtLevel=1: a JVM with C1 alone starts sooner, but the source then costs it 2.3 us a row, not 1.1.
# But C2 begins ten times later than it would: a third of the CPU of a start is its work on what runs only then.
# Hadoop starts a process for every file it makes, to set its mode: without the JVM's helper in between.
# The archive is mapped where it was made for, or all the pointers in it would be written anew; and no collection of the
# whole heap on the way, because there are many classes.
START_UP_OPTIONS = (
    "-Djdk.lang.Process.launchMechanism=VFORK -Dlog4j2.disable.jmx=true "
    "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -XX:MetaspaceSize=192m "
    "-XX:+UseSerialGC -Xshare:auto -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)


# Set by who runs a pipeline's file: gives a session whose JVM is not started yet, until it is.
stand_in: Callable[[], SparkSession | None] | None = None


def session(
    app_name: str = "barnabas",
    *,
    master: str | None = None,
    conf: Mapping[str, object] | None = None,
    quick_start: bool = True,
) -> SparkSession:
    """The session, started or the one that runs. `quick_start` uses the JVM's start-up archive, and has it made when
    the program ends if there is none."""
    if stand_in is not None and not conf and (waiting := stand_in()) is not None:
        return waiting
    if _context() is not None:  # its settings are as they were meant, but for what is said here
        from pyspark.sql import SparkSession

        running = SparkSession.builder.config(map={name: _text(value) for name, value in (conf or {}).items()})
        return active_here(running.getOrCreate())
    starting = StartingSession(app_name, master=master, conf=conf, quick_start=quick_start)
    spark = starting.wait()
    ending.watch(make_archive=starting.wants_archive)
    return spark


class StartingSession:
    """Under way: the JVM and the process that workers are forked from start beside this one."""

    def __init__(
        self,
        app_name: str,
        *,
        master: str | None = None,
        conf: Mapping[str, object] | None = None,
        quick_start: bool = True,
    ) -> None:
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        if not submitted:
            find_java()
        settings = settings_for(master, conf or {}, submitted=submitted, quick_start=quick_start)
        if submitted:
            settings = {
                name: value for name, value in settings.items() if name in (conf or {}) or not _is_submitted(name)
            }
        settings["spark.app.name"] = app_name
        self._settings = settings
        self._local = settings.get("spark.master", "").startswith("local")
        if self._local:
            # Spark looks for python3 on the PATH otherwise.
            chosen = workers_python.chosen_by_user() or sys.executable
            workers_python.use(launcher() if quick_start else chosen)
        else:
            workers_python.choose_for_driver_only()
        self.wants_archive = self._local and quick_start and not submitted
        self._jvm = _start_jvm(settings) if self.wants_archive else None

    def wait(self) -> SparkSession:
        spark = _started(self._settings, self._jvm)
        if self._local:
            write_no_checksums(spark)
        return spark

    def abandon(self) -> None:
        if self._jvm is not None:
            self._jvm.process.kill()


def _context() -> SparkContext | None:
    """The one that runs; it does not when nobody has imported PySpark yet, which takes its time."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _start_jvm(settings: Mapping[str, str]) -> StartingJvm | None:
    """None if PySpark is to start it, or has already."""
    from barnabas.pipelines.spark.startup.archive import (
        archive,
        class_path_of,
        command_path_of,
        files_jar_of,
        spark_home,
    )

    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        if SparkContext._gateway is not None:
            return None
    made = archive()
    if made is None or settings.get(CLASS_PATH) != class_path_of(made):
        return None
    kept = kept_command(command_path_of(made))
    if kept is None or needs_submit(settings, os.environ, spark_home()):
        return None
    files = files_jar_of(made)
    if not files.exists():
        return StartingJvm(command_for(kept, settings), spark_home())
    return StartingJvm(command_for(kept, {local_files.SETTING: local_files.CLASS, **settings}, files), spark_home())


def _started(settings: Mapping[str, str], starting: StartingJvm | None) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if starting is not None and (gateway := starting.gateway()) is not None:
        SparkContext._ensure_initialized(gateway=gateway)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def active_here(spark: SparkSession) -> SparkSession:
    """In the thread that calls this: Spark finds data sources in Python by a thread's active session only."""
    ours: Any = spark
    ours._get_j_spark_session_class(ours._jvm).setActiveSession(ours._jsparkSession)
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
            settings |= _jvm_settings(given.pop(JAVA_OPTIONS, ""), quick_start, archived=CLASS_PATH not in given)
    return settings | given


def _is_submitted(name: str) -> bool:
    """Whether `spark-submit` or its file of defaults has set it."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return SparkConf().contains(name)


def _jvm_settings(given: str, quick_start: bool, archived: bool) -> dict[str, str]:
    """The user's options come last, so that they win; an archive is for the class path that it was made with."""
    if not quick_start:
        return {JAVA_OPTIONS: given}
    from barnabas.pipelines.spark.startup.archive import archive, class_path_of

    made = archive() if archived else None
    if made is None:
        return {JAVA_OPTIONS: " ".join(filter(None, (START_UP_OPTIONS, given)))}
    options = " ".join(filter(None, (START_UP_OPTIONS, f"-XX:SharedArchiveFile={made}", given)))
    return {JAVA_OPTIONS: options, CLASS_PATH: class_path_of(made)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
