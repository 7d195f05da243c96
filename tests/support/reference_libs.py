"""Where the reference comes from: Apache Kafka's jars out of Maven Central, kept in a cache outside the repository.

Maven resolves a generated pom into a directory beside the final one, which is then renamed: a half-made cache is
never seen, and a file lock lets concurrent callers wait for the first.
"""

import fcntl
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

KAFKA_VERSION = "4.3.1"
JAVA_VERSION_MIN = 17
MAVEN_TIMEOUT_S = 600

_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_STREAMS_ARTIFACTS = (("org.apache.kafka", "kafka-streams", KAFKA_VERSION),)
_STREAMS_TEST_ARTIFACTS = (("org.apache.kafka", "kafka-streams-test-utils", KAFKA_VERSION),)
_REGISTRY_ARTIFACTS = (
    ("org.apache.flink", "flink-sql-avro-confluent-registry", "2.2.0"),
    ("org.apache.avro", "avro", "1.12.0"),
    ("org.slf4j", "slf4j-nop", "2.0.16"),
)
_CONNECT_ARTIFACTS = tuple(
    ("org.apache.kafka", name, KAFKA_VERSION)
    for name in ("connect-api", "connect-json", "connect-transforms", "connect-file", "connect-runtime")
)
_DEBEZIUM_ARTIFACTS = (
    ("io.debezium", "debezium-embedded", "3.5.0.Final"),
    ("io.debezium", "debezium-connector-postgres", "3.5.0.Final"),
    ("io.debezium", "debezium-connector-mariadb", "3.5.0.Final"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>reference</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""

_DEPENDENCY = """<dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><scope>runtime</scope>
</dependency>"""

_LOG4J = """<Configuration status="ERROR">
<Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="${sys:reference.log.level:-WARN}"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""


class ReferenceUnavailable(Exception):
    """Apache Kafka cannot be had here; the text says why."""


def cache_dir() -> Path:
    root = os.environ.get("BARNABAS_CACHE")
    base = Path(root) if root else Path.home() / ".cache" / "barnabas"
    return base / f"kafka-{KAFKA_VERSION}"


@functools.cache
def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise ReferenceUnavailable("Java is not installed")
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise ReferenceUnavailable(f"Apache Kafka {KAFKA_VERSION} needs Java {JAVA_VERSION_MIN} or newer")
    return found


@functools.cache
def libs() -> Path:
    """The directory with all jars, fetched on first use."""
    target = _fetched("libs", _ARTIFACTS)
    log4j = target.parent / "log4j2.xml"
    if not log4j.exists() or log4j.read_text() != _LOG4J:
        log4j.write_text(_LOG4J)
    return target


@functools.cache
def streams_libs() -> Path:
    """The directory with the jars of Kafka Streams and what it needs, for those few who want it."""
    return _fetched("streams-libs", _STREAMS_ARTIFACTS)


@functools.cache
def streams_test_libs() -> Path:
    """The same with the driver that runs a topology without a cluster."""
    return _fetched("streams-test-libs", _STREAMS_TEST_ARTIFACTS)


@functools.cache
def registry_libs() -> Path:
    """Confluent's registry client with its Avro checker, as Flink packs it, and Avro itself."""
    return _fetched("registry-libs", _REGISTRY_ARTIFACTS)


@functools.cache
def connect_libs() -> Path:
    """Apache Connect: its worker, converters, transformations and the connectors for files."""
    return _fetched("connect-libs", _CONNECT_ARTIFACTS)


@functools.cache
def debezium_libs() -> Path:
    """Debezium's connectors and the engine that runs them without a broker."""
    return _fetched("debezium-libs", _DEBEZIUM_ARTIFACTS)


def classpath_options(*, with_streams: bool = False) -> list[str]:
    """What every java command of the reference begins with."""
    directory = libs()
    directories = [directory, streams_libs()] if with_streams else [directory]
    classpath = os.pathsep.join(f"{each}/*" for each in directories)
    return ["-cp", classpath, f"-Dlog4j2.configurationFile={directory.parent / 'log4j2.xml'}"]


def _fetched(name: str, artifacts: Sequence[tuple[str, str, str]]) -> Path:
    home = cache_dir()
    target = home / name
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _download(target, artifacts)
    return target


def _download(target: Path, artifacts: Sequence[tuple[str, str, str]]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ReferenceUnavailable(f"Apache Kafka {KAFKA_VERSION} is not in the cache and Maven is not installed")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as directory:
        work = Path(directory)
        dependencies = "".join(_DEPENDENCY.format(*artifact) for artifact in artifacts)
        (work / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command.append(f"-DoutputDirectory={work / 'libs'}")
        try:
            done = subprocess.run(
                command, cwd=work, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ReferenceUnavailable(f"Maven did not fetch Apache Kafka within {MAVEN_TIMEOUT_S} s") from None
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["no reason given"]
            raise ReferenceUnavailable(f"Maven could not fetch Apache Kafka {KAFKA_VERSION}: {lines[0]}")
        (work / "libs").rename(target)
