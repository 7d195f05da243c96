"""The JVM of a session on one machine, started by its own command while PySpark is imported.

PySpark starts it through spark-submit: a shell, a JVM that puts the command together, and another main class before the
one of the gateway. The command is the same every time but for memory, options and settings, so the one that ran when
the start-up archive was made is kept beside it. What needs more than that (jars, packages, files, a file of defaults,
an environment that changes class path or options) goes through spark-submit as ever.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.spark.startup.fork_server import SCRATCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMIT_MAIN = "org.apache.spark.deploy.SparkSubmit"
GATEWAY_MAIN = "org.apache.spark.api.python.PythonGatewayServer"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
MEMORY = "spark.driver.memory"
OPTIONS_HERE = "<options>"
LOOK_S = 0.005
END_LIMIT_S = 120

# Settings and variables of the environment that spark-submit makes something of.
SUBMITTED_SETTINGS = (
    "spark.jars",
    "spark.files",
    "spark.archives",
    "spark.submit.",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraLibraryPath",
    "spark.driver.userClassPathFirst",
    "spark.plugins",
)
SUBMITTED_ENVIRONMENT = (
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_JAVA_OPTS",
    "SPARK_LIBRARY_PATH",
    "SPARK_MEM",
    "SPARK_PREPEND_CLASSES",
    "SPARK_SUBMIT_OPTS",
    "SPARK_TESTING",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "PYSPARK_PIN_THREAD",
)


def command_of(process: int, options: str) -> list[str]:
    """The command by which a JVM runs that spark-submit started with these options, without what it was told to do."""
    words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
    words = words[: words.index(SUBMIT_MAIN)]
    given = options.split()
    first = words.index(given[0])
    if words[first : first + len(given)] != given:
        raise ValueError("the options are not together in the command")
    return [*words[:first], OPTIONS_HERE, *words[first + len(given) :]]


def command_for(kept: Sequence[str], settings: Mapping[str, str], *jars: Path) -> list[str]:
    """For these settings, which the gateway's JVM finds among its properties as spark-submit would leave them; `jars`
    come last on the class path."""
    words: list[str] = []
    for word in kept:
        if words and words[-1] == "-cp":
            words.append(os.pathsep.join((word, *map(str, jars))))
        elif word == OPTIONS_HERE:
            words += settings.get(JAVA_OPTIONS, "").split()
        elif word.startswith("-Xmx") and MEMORY in settings:
            words.append(f"-Xmx{settings[MEMORY]}")
        else:
            words.append(word)
    told = {"spark.submit.deployMode": "client", **settings}
    return [*words, *(f"-D{name}={value}" for name, value in told.items() if name.startswith("spark.")), GATEWAY_MAIN]


def needs_submit(settings: Mapping[str, str], environment: Mapping[str, str], home: Path) -> bool:
    return (
        any(name.startswith(SUBMITTED_SETTINGS) for name in settings)
        or any(environment.get(name) for name in SUBMITTED_ENVIRONMENT)
        or any((home / "conf" / name).exists() for name in ("spark-defaults.conf", "spark-env.sh"))
        or '"' in settings.get(JAVA_OPTIONS, "")  # words that a shell's rules would keep together
    )


class StartingJvm:
    """Under way; `gateway` waits for it."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="barnabas-jvm-", dir=os.environ.get(SCRATCH)))
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._directory / "connection"),
        }
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Its stdin's end is the sign for it to end. Ctrl-C is for the driver alone.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

    def gateway(self) -> Any:
        """None if the JVM ended: spark-submit may have better luck, or the words for it."""
        told = self._directory / "connection"
        try:
            while not told.exists():
                if self.process.poll() is not None:
                    return None
                time.sleep(LOOK_S)
            content = told.read_bytes()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        length = int.from_bytes(content[4:8], "big")
        return self._connected(int.from_bytes(content[:4], "big"), content[8 : 8 + length].decode())

    def _connected(self, port: int, secret: str) -> Any:
        """PySpark connects to a JVM that runs already, as in spark-submit, by what is in its environment."""
        from pyspark import java_gateway

        connect: Any = java_gateway.launch_gateway
        known = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(known)
        try:
            gateway = connect()
        finally:
            for name in known:
                del os.environ[name]
        gateway.proc = self.process
        return gateway


def end(spark: SparkSession) -> None:
    """Stops a session and its JVM, which otherwise ends a moment after this process."""
    from pyspark import SparkContext

    context: Any = SparkContext
    gateway = context._gateway
    spark.stop()
    gateway.shutdown()
    context._gateway = context._jvm = None
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None:  # else it is that of spark-submit
        if process.stdin is not None:
            process.stdin.close()
        process.wait(timeout=END_LIMIT_S)


def forget(spark: SparkSession) -> None:
    """Of a session whose JVM does not answer: PySpark keeps the way to a JVM for the whole process, and without it the
    next session starts a new one. What is left of the old JVM is killed. If the process has another session by now,
    nothing is done."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    if context._active_spark_context is not spark.sparkContext:
        return
    process: subprocess.Popen[bytes] | None = getattr(context._gateway, "proc", None)
    context._active_spark_context = context._gateway = context._jvm = None
    SparkSession._instantiatedSession = None
    if process is not None:
        process.kill()
        process.wait(timeout=END_LIMIT_S)
        if process.stdin is not None:
            process.stdin.close()


def kept_command(path: Path) -> list[str] | None:
    try:
        words: list[str] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return words
