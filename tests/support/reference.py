"""The reference: Apache Kafka 4.3.1 as a process beside our node, and Kafka's own command-line tools.

`ApacheKafka` is one combined KRaft node on free ports of 127.0.0.1, in a temporary directory or on a directory that
somebody left behind. `run_tool` runs a tool by its script's name (`kafka-topics`) or by its main class.
"""

import atexit
import ctypes
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.reference_libs import KAFKA_VERSION, ReferenceUnavailable, classpath_options, java, libs

__all__ = [
    "KAFKA_VERSION",
    "SHIPPED_JVM",
    "TEST_JVM",
    "TOOLS",
    "ApacheKafka",
    "ReferenceUnavailable",
    "answers_metadata",
    "available",
    "free_port",
    "run_tool",
]

CLUSTER_ID = "QmFybmFiYXNSZWZlcmVuYw"

# Tests start often and live shortly: a small heap and the first compiler only.
TEST_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
TOOL_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# What kafka-server-start.sh gives a broker: benchmarks measure this.
SHIPPED_JVM = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def available() -> str | None:
    """None where Apache Kafka can be run (it is fetched if need be), else the reason why not."""
    try:
        java()
        libs()
    except ReferenceUnavailable as reason:
        return str(reason)
    return None


def run_tool(
    tool: str,
    *args: str | os.PathLike[str],
    input: str | None = None,
    timeout_s: float = 60,
    check: bool = False,
    jvm: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's tools to its end; the broker's address is among the arguments, as with the scripts."""
    main_class = TOOLS.get(tool.removesuffix(".sh"), tool)
    return subprocess.run(
        [java(), *TOOL_JVM, *jvm, *classpath_options(), main_class, *args],
        input=input,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=check,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers_metadata(host: str, port: int, timeout_s: float = 5) -> bool:
    """True once the broker answers Metadata v1 (for no topic) and lists at least one broker."""
    request = struct.pack(">hhih5si", 3, 1, 1, 5, b"probe", 0)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            _, brokers = struct.unpack_from(">ii", stream.read(size))
            return int(brokers) > 0
    except (OSError, struct.error):
        return False


class ApacheKafka:
    """One node of Apache Kafka with both roles.

    With `directory` given, the node lives there and leaves it behind; it is formatted only if it is not yet.
    `data_dir` is its log directory, `properties` are added to (or replace) the generated ones.
    """

    def __init__(
        self,
        *,
        directory: Path | None = None,
        data_dir: Path | None = None,
        port: int = 0,
        controller_port: int = 0,
        properties: Mapping[str, str] | None = None,
        release_version: str | None = None,
        features: Mapping[str, int] | None = None,
        cluster_id: str = CLUSTER_ID,
        jvm: Sequence[str] = TEST_JVM,
        log_level: str = "WARN",
        start_timeout_s: float = 90,
    ) -> None:
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self.data_dir = data_dir or self.directory / "data"
        self.port = port or free_port()
        self.controller_port = controller_port or free_port()
        self.cluster_id = cluster_id
        self.release_version = release_version
        self.features = dict(features or {})
        self.start_timeout_s = start_timeout_s
        self.start_duration_s = 0.0
        self._jvm = [*jvm, f"-Dreference.log.level={log_level}"]
        self._extra = dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_file(self) -> Path:
        """What the process printed: its log."""
        return self.directory / "kafka.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._extra,
        }

    def format(self) -> str:
        """Formats the data directory by `kafka-storage format`, with --standalone unless the voters are static, and
        returns what it printed."""
        self.write_properties()
        args = ["format", "--cluster-id", self.cluster_id, "--config", str(self.properties_file)]
        if "controller.quorum.voters" not in self._extra:
            args.append("--standalone")
        if self.release_version is not None:
            args += ["--release-version", self.release_version]
        for name, level in self.features.items():
            args += ["--feature", f"{name}={level}"]
        done = run_tool("kafka-storage", *args)
        if done.returncode != 0:
            raise RuntimeError(f"Apache Kafka could not format {self.data_dir}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self) -> Self:
        if not (self.data_dir / "meta.properties").exists():
            self.format()
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        assert not self.running, "already running"
        self.write_properties()
        command = [java(), *self._jvm, *classpath_options(), "kafka.Kafka", str(self.properties_file)]
        with open(self.log_file, "ab") as log:
            self._launched_at = time.monotonic()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with(os.getpid())
            )
        atexit.register(self.kill)

    def wait_until_ready(self) -> None:
        limit = time.monotonic() + self.start_timeout_s
        while not answers_metadata("127.0.0.1", self.port):
            if not self.running:
                raise RuntimeError(f"Apache Kafka ended while starting:\n{self._log_tail()}")
            if time.monotonic() > limit:
                self.kill()
                raise TimeoutError(f"Apache Kafka did not answer in {self.start_timeout_s} s:\n{self._log_tail()}")
            time.sleep(0.005)
        self.start_duration_s = time.monotonic() - self._launched_at

    def kill(self) -> None:
        """`kill -9`: nothing is flushed or said."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """As a machine that hangs: connections stay open, and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, timeout_s: float = 60) -> None:
        """A clean stop, as after SIGTERM."""
        self._end(signal.SIGTERM, timeout_s)

    def restart(self) -> None:
        """Starts it again on the same ports and files, after a clean stop if it still runs."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends it and removes its temporary directory; a directory that was given is stopped cleanly and stays."""
        if self._temporary:
            self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            self.stop()

    def _end(self, number: signal.Signals, timeout_s: float = 60) -> None:
        process, self._process = self._process, None
        atexit.unregister(self.kill)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"Apache Kafka did not stop in {timeout_s} s:\n{self._log_tail()}") from None

    def write_properties(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in self.properties().items()]
        self.properties_file.write_text("".join(lines))

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _log_tail(self) -> str:
        return self.log()[-4000:]


def _die_with(parent: int) -> Callable[[], None] | None:
    """On Linux a node does not outlive the tests that started it, however they end."""
    if _libc is None:
        return None
    libc = _libc

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return before_exec
