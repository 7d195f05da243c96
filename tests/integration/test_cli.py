"""The program as people meet it: what it prints, which sentence it refuses with, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from barnabas import __version__
from barnabas.cli.main import main
from barnabas.testing.process import environment
from barnabas.testing.reserved_port import ReservedPort
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.connections import connect_to

LIMIT_S = 30
CLEAN_STOP = ".kafka_cleanshutdown"
PROGRAM = [sys.executable, "-m", "barnabas"]


class Program:
    """A run of `barnabas` that goes on until it is stopped."""

    def __init__(self, *arguments: str, until: str, variables: dict[str, str] | None = None) -> None:
        self._child = subprocess.Popen(
            [*PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(os.environ) | (variables or {}),
        )
        self._said: dict[str, str] = {"out": "", "err": ""}
        self._changed = threading.Condition()
        self._ended = 0
        streams = {"out": self._child.stdout, "err": self._child.stderr}
        self._readers = [threading.Thread(target=self._read, args=item) for item in streams.items()]
        for reader in self._readers:
            reader.start()
        try:
            self.wait_for(until)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @property
    def out(self) -> str:
        return self._said["out"]

    @property
    def err(self) -> str:
        return self._said["err"]

    def wait_for(self, text: str) -> None:
        with self._changed:
            said = self._changed.wait_for(lambda: text in self.out + self.err or self._ended == 2, LIMIT_S)
            assert said, f"{text!r} was not said in time: {self.out}{self.err}"
        assert text in self.out + self.err, self.out + self.err

    def send(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def end(self) -> int:
        code = self._child.wait(LIMIT_S)
        for reader in self._readers:
            reader.join()
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return self.end()

    def _read(self, name: str, stream: Any) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self._said[name] += line.decode()
                    self._changed.notify_all()
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self.end()


def up(data_dir: Path, *arguments: str) -> Program:
    return Program("up", "--port", "0", "--data-dir", str(data_dir), *arguments, until="Ctrl-C stops it.")


def server(*arguments: str, variables: dict[str, str] | None = None) -> Program:
    return Program("server", "start", *arguments, variables=variables, until="serves")


def run(*arguments: str, variables: dict[str, str] | None = None, program: Sequence[str] = PROGRAM) -> tuple[int, str]:
    """A run that ends by itself: its exit code, and what it said to standard error."""
    done = subprocess.run(
        [*program, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment(os.environ) | (variables or {}),
    )
    return done.returncode, done.stderr


def neighbours(reserve: Callable[[], int]) -> tuple[int, socket.socket]:
    """A port that is free for us, and a server on the next one."""
    for _ in range(50):
        port = reserve()
        try:
            return port, socket.create_server(("127.0.0.1", port + 1))
        except OSError:
            continue
    raise LookupError("no two free ports side by side")


@pytest.fixture
def reserve() -> Iterator[Callable[[], int]]:
    reserved: list[ReservedPort] = []

    def one_more() -> int:
        reserved.append(ReservedPort())
        return reserved[-1].number

    yield one_more
    for port in reserved:
        port.release()


@pytest.fixture
def listeners(reserve: Callable[[], int]) -> str:
    return f"PLAINTEXT://127.0.0.1:{reserve()},CONTROLLER://127.0.0.1:{reserve()}"


def port_of(listeners: str, index: int = 0) -> int:
    return int(listeners.split(",")[index].rpartition(":")[2])


def metadata(port: int, *topics: str) -> Any:
    with connect_to(port) as connection:
        return connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics]))


def broker_config(port: int, key: str, node_id: int = 1) -> str:
    resource = DescribeConfigsResource(resource_type=4, resource_name=str(node_id), configuration_keys=[key])
    with connect_to(port) as connection:
        value = connection.request(DescribeConfigsRequest(resources=[resource])).results[0].configs[0].value
    assert isinstance(value, str)
    return value


def is_one_sentence(text: str) -> bool:
    return text.count("\n") == 1 and text.startswith("barnabas ") and "Traceback" not in text


# The program itself


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0), (["-h"], 0)])
def test_help_names_the_commands(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(arguments) == code
    said = capsys.readouterr()
    assert "usage: barnabas" in said.out
    assert re.search(r"^  up +Start a node in the foreground\.$", said.out, re.MULTILINE)
    assert "  server " in said.out
    assert said.err == ""


def test_names_and_meanings_of_commands_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["--help"]) == 0
    assert "\n  json-schema-console-consumer Print the records" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["--version"]) == 0
    assert capsys.readouterr().out == f"barnabas {__version__}\n"


def test_python_runs_the_program_too() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    script = Path(sys.executable).with_name("barnabas")
    assert script.exists(), "the package puts its program beside python"
    assert subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout == done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["upp"], "there is no command upp, is up meant?"),
        (["sevrer", "start"], "there is no command sevrer, is server meant?"),
        (["zookeeper"], "there is no command zookeeper among up, server"),
        (["--frobnicate"], "required: command"),
        (["up", "--prot", "9092"], "unrecognized arguments: --prot"),
        (["up", "--port", "many"], "many is not a port from 0 to 65535"),
        (["up", "--port", "65536"], "65536 is not a port from 0 to 65535"),
        (["up", "--port", "-1"], "-1 is not a port"),
        (["up", "--brokers", "0"], "0 is no number from 1 on"),
        (["up", "--brokers", "-1"], "-1 is no number from 1 on"),
        (["up", "--brokers", "few"], "few is no number from 1 on"),
        (["up", "--brokers", "2", "--controllers", "-1"], "-1 is no number from 0 on"),
        (["up", "further"], "unrecognized arguments: further"),
        (["server"], "required: command"),
        (["server", "begin"], "invalid choice: 'begin'"),
        (["server", "start", "a.properties", "b.properties"], "unrecognized arguments: b.properties"),
    ],
)
def test_bad_arguments_are_told(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(arguments) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""


def ended(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


# up


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_says_where_it_is_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    data_dir = tmp_path / "not" / "there yet"
    with up(data_dir) as program:
        lines = program.out.splitlines()
        assert re.fullmatch(r"Barnabas is up: node 1 of cluster [\w-]{22}", lines[0])
        clients = re.fullmatch(r"  clients     localhost:(\d+)", lines[1])
        assert re.fullmatch(r"  controller  localhost:(\d+)", lines[2])
        assert lines[3:] == [f"  data in {data_dir}", "Ctrl-C stops it."]
        assert clients is not None
        assert [(each.node_id, each.host) for each in metadata(int(clients[1])).brokers] == [(1, "localhost")]
        assert not (data_dir / CLEAN_STOP).exists()
        assert program.stop(number) == 0
        assert program.out.endswith("Ctrl-C stops it.\n\nStopping ...\n")
        assert program.err == ""
    assert (data_dir / CLEAN_STOP).exists()


def test_a_second_ctrl_c_does_not_disturb_the_stop(tmp_path: Path) -> None:
    with up(tmp_path) as program:
        program.send(signal.SIGINT)
        program.wait_for("Stopping")
        for _ in range(20):
            program.send(signal.SIGINT)
            program.send(signal.SIGTERM)
        assert program.end() == 0
        assert program.err == ""
    assert (tmp_path / CLEAN_STOP).exists()


def test_up_outlives_who_reads_what_it_says(tmp_path: Path) -> None:
    """As in `barnabas up | head -1`."""
    reader, writer = os.pipe()
    command = [*PROGRAM, "up", "--port", "0", "--data-dir", str(tmp_path)]
    with open(reader, "rb", buffering=0) as pipe:
        child = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        assert pipe.read(10) == b"Barnabas i"
    child.terminate()
    assert child.communicate(timeout=LIMIT_S)[1] == ""
    assert child.returncode == 0
    assert (tmp_path / CLEAN_STOP).exists()


def test_up_takes_the_ports_it_is_given(tmp_path: Path, reserve: Callable[[], int]) -> None:
    port, controller_port = reserve(), reserve()
    given = ["--port", str(port), "--controller-port", str(controller_port), "--host", "127.0.0.1"]
    with up(tmp_path, *given, "--override", "num.partitions=4") as program:
        assert f"clients     127.0.0.1:{port}" in program.out
        assert f"controller  127.0.0.1:{controller_port}" in program.out
        assert len(metadata(port, "made-by-asking").topics[0].partitions) == 4


def test_up_takes_another_port_for_the_quorum_if_the_next_one_is_taken(
    tmp_path: Path, reserve: Callable[[], int]
) -> None:
    port, taken = neighbours(reserve)
    with taken, up(tmp_path, "--port", str(port)) as program:
        assert f"clients     localhost:{port}\n" in program.out
        assert f"controller  localhost:{port + 1}\n" not in program.out


def test_an_up_that_fails_leaves_no_directory(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _ = run("up", "--port", port, "--data-dir", str(tmp_path / "data"))
    assert (code, list(tmp_path.iterdir())) == (1, [])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--racks", "a,b"], "--racks is for a cluster: say with --brokers how many nodes it has."),
        (["--brokers", "2", "--override", "foo"], "foo is not an override: key=value is expected."),
        (["--brokers", "2", "--override", "log.retention.ms=abc"], "Invalid value abc for configuration log.retention"),
        (["--brokers", "2", "--port", "65535"], "A broker would need the port 65536: 65535 is the last there is."),
        (["--brokers", "2", "--port", "0", "--host", "192.0.2.1"], "PLAINTEXT://192.0.2.1:0 cannot be opened"),
        (["--brokers", "2", "--port", "0", "--data-dir", "/dev/null"], "The directory /dev/null cannot be used"),
    ],
)
def test_what_up_cannot_do_is_one_sentence_and_leaves_no_directory(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    code, said = run("up", "--data-dir", str(tmp_path / "data"), *arguments)
    assert code == 1
    assert is_one_sentence(said)
    assert sentence in said
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_ends_a_cluster_before_it_has_a_directory(tmp_path: Path, reserve: Callable[[], int]) -> None:
    port, taken = neighbours(reserve)
    with taken:
        code, said = run("up", "--brokers", "2", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert code == 1
    assert (
        said == f"barnabas up: The listener PLAINTEXT://localhost:{port + 1} cannot be opened: Address already in use\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_single_node_does_not_start_in_the_directory_of_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    code, said = run("up", "--port", "0", "--data-dir", str(tmp_path))
    assert (code, said) == (1, f"barnabas up: {tmp_path} holds a cluster of several nodes: start it with --brokers.\n")


def test_a_node_that_was_secured_says_that_it_is_so_no_more(tmp_path: Path) -> None:
    (tmp_path / "data-security").mkdir()
    with up(tmp_path / "data") as program:
        told = f"{tmp_path / 'data'} was started with --secure before; without it anybody may read and write."
        assert program.err == f"barnabas up: {told}\n"


def test_a_cluster_on_every_interface_takes_free_ports_and_advertises_the_name_of_the_machine(tmp_path: Path) -> None:
    command = ["up", "--port", "0", "--data-dir", str(tmp_path), "--brokers", "2", "--host", "0.0.0.0"]
    with Program(*command, until="are in service") as program:
        found = re.search(r"clients     localhost:(\d+),localhost:(\d+)\n", program.out)
        assert found is not None
        assert int(found[2]) == int(found[1]) + 1
        assert {each.host for each in metadata(int(found[1])).brokers} == {socket.getfqdn()}


def test_up_on_every_interface_advertises_the_name_of_the_machine(tmp_path: Path) -> None:
    with up(tmp_path, "--host", "0.0.0.0") as program:
        found = re.search(r"clients     (\S+):(\d+)", program.out)
        assert found is not None
        assert found[1] == socket.getfqdn()
        assert [each.host for each in metadata(int(found[2])).brokers] == [found[1]]


@pytest.mark.parametrize("which", ["PLAINTEXT", "CONTROLLER"])
def test_a_port_in_use_is_one_sentence(tmp_path: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = ["--port", port] if which == "PLAINTEXT" else ["--port", "0", "--controller-port", port]
        code, said = run("up", *ports, "--data-dir", str(tmp_path))
    assert code == 1
    assert said == f"barnabas up: The listener {which}://localhost:{port} cannot be opened: Address already in use\n"
    assert {path.name for path in tmp_path.iterdir()} <= {".lock"}


def test_an_address_of_another_machine_is_one_sentence(tmp_path: Path) -> None:
    code, said = run("up", "--port", "0", "--host", "192.0.2.1", "--data-dir", str(tmp_path))
    assert code == 1
    assert is_one_sentence(said)
    assert "PLAINTEXT://192.0.2.1:0 cannot be opened: Cannot assign requested address" in said


# server start, from a file


def properties_file(directory: Path, **settings: object) -> Path:
    path = directory / "server.properties"
    path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()))
    return path


def test_a_node_starts_from_a_file_and_overrides_win(tmp_path: Path, listeners: str) -> None:
    file = properties_file(
        tmp_path, node_id=7, listeners=listeners, log_dirs=tmp_path / "data", num_partitions=2, message_max_bytes=5000
    )
    variables = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_MESSAGE_MAX_BYTES": "6000", "KAFKA_HEAP_OPTS": "-Xmx1g"}
    with server(str(file), "--override", "num.partitions=5", variables=variables) as program:
        program.wait_for(f"the node is up; its data is in {tmp_path / 'data'}")
        port = port_of(listeners)
        assert broker_config(port, "num.partitions", 7) == "5"
        assert broker_config(port, "message.max.bytes", 7) == "6000"
        assert metadata(port).controller_id == 7
        assert program.stop() == 0
        assert "WARNING" not in program.err
    assert (tmp_path / "data" / CLEAN_STOP).exists()
    assert "node.id=7\n" in (tmp_path / "data" / "meta.properties").read_text()


def test_unknown_keys_are_warned_about(tmp_path: Path, listeners: str) -> None:
    file = properties_file(tmp_path, listeners=listeners, log_dirs=tmp_path / "data", num_partitons=2, colour="red")
    with server(str(file)) as program:
        assert "WARNING num.partitons is not a key of Kafka and is ignored. Is num.partitions meant?" in program.err
        assert "WARNING colour is not a key of Kafka and is ignored." in program.err
        assert broker_config(port_of(listeners), "num.partitions") == "1"


OLD_COURSE_FILE = """
# see kafka.server.KafkaConfig for additional details and defaults
broker.id=0
listeners={listeners}
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data_dir}
num.partitions=3
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
delete.topic.enable=true
inter.broker.protocol.version=2.8
log.message.format.version=2.8
log.cleaner.enable=true
"""


def test_a_course_s_old_file_starts_with_warnings(tmp_path: Path, reserve: Callable[[], int]) -> None:
    port = reserve()
    file = tmp_path / "server.properties"
    file.write_text(OLD_COURSE_FILE.format(listeners=f"PLAINTEXT://127.0.0.1:{port}", data_dir=tmp_path / "kafka-logs"))
    with server(str(file)) as program:
        assert "zookeeper.connect, zookeeper.connection.timeout.ms is ignored: no ZooKeeper is needed." in program.err
        assert "inter.broker.protocol.version is ignored" in program.err
        assert "log.message.format.version is ignored" in program.err
        assert program.err.count("WARNING") == 3
        answer = metadata(port, "course")
        assert [each.node_id for each in answer.brokers] == [0]
        assert len(answer.topics[0].partitions) == 3
        assert program.stop() == 0


def test_brokers_of_a_course_s_cluster_have_files_of_their_own(tmp_path: Path, reserve: Callable[[], int]) -> None:
    """`server-1.properties` and `server-2.properties` differ in id, port and directory: both run on one machine."""
    for number in (1, 2):
        properties = OLD_COURSE_FILE.replace("broker.id=0", f"broker.id={number}").format(
            listeners=f"PLAINTEXT://127.0.0.1:{reserve()}", data_dir=tmp_path / f"kafka-logs-{number}"
        )
        (tmp_path / f"server-{number}.properties").write_text(properties)
    first, second = (str(tmp_path / f"server-{number}.properties") for number in (1, 2))
    with server(first) as one, server(second) as two:
        assert one.stop() == two.stop() == 0


@pytest.mark.parametrize("what", ["missing", "a directory", "broken"])
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.properties"
    if what == "a directory":
        path.mkdir()
    elif what == "broken":
        path.write_text("node.id=\\u00zz\n")
    assert main(["server", "start", str(path)]) == 1
    said = capsys.readouterr().err
    assert is_one_sentence(said)
    assert said.startswith(f"barnabas server: The configuration file {path} cannot be read: ")


# Root may read and write everything, so it becomes somebody else once it has the program in memory.
BY_NOBODY = """
import argparse, os, pwd, sys
import uvloop, barnabas.node.node, barnabas.node.configuration.sources
from barnabas.cli.main import main
if os.geteuid() == 0:
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
sys.exit(main(sys.argv[1:]))
"""


def run_by_nobody(*arguments: str) -> tuple[int, str]:
    return run(*arguments, program=[sys.executable, "-c", BY_NOBODY])


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """`tmp_path` is closed to everybody else."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


def test_a_file_that_may_not_be_read_is_one_sentence(open_directory: Path) -> None:
    file = properties_file(open_directory, node_id=1)
    file.chmod(0)
    code, said = run_by_nobody("server", "start", str(file))
    assert (code, said) == (
        1,
        f"barnabas server: The configuration file {file} cannot be read: Permission denied.\n",
    )


@pytest.mark.parametrize("formatted", [True, False])
def test_a_directory_that_may_not_be_written_is_one_sentence(open_directory: Path, formatted: bool) -> None:
    data_dir = open_directory / "data"
    data_dir.mkdir()
    if formatted:
        with up(data_dir) as program:
            assert program.stop() == 0
    data_dir.chmod(0o555)
    code, said = run_by_nobody("up", "--port", "0", "--data-dir", str(data_dir))
    assert (code, said) == (
        1,
        f"barnabas up: A log directory cannot be used: {data_dir}/.lock: Permission denied\n",
    )
    data_dir.chmod(0o755)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("num.partitions=none", "num.partitions"),
        ("num.partitions=0", "num.partitions"),
        ("node.id=-1", "node.id"),
        ("listeners=127.0.0.1:9092", "listeners=127.0.0.1:9092"),
        ("listeners=PLAINTEXT://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9094", "PLAINTEXT twice"),
        ("listeners=INTERNAL://127.0.0.1:9092", "INTERNAL"),
        ("listeners=PLAINTEXT://0.0.0.0:0,CONTROLLER://127.0.0.1:0", "0.0.0.0"),
        ("advertised.listeners=EXTERNAL://example.org:9092", "EXTERNAL"),
        ("listener.security.protocol.map=PLAINTEXT:ROT13", "ROT13"),
        ("process.roles=zookeeper", "process.roles"),
        ("log.dirs=", "log.dirs"),
        ("log.retention.ms=0", "log.retention.ms"),
        ("=5", "=5 is not an override"),
        ("num.partitions", "num.partitions is not an override"),
    ],
)
def test_a_wrong_value_is_one_sentence(override: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "start", "--override", override]) == 1
    said = capsys.readouterr()
    assert is_one_sentence(said.err), said.err
    assert said.err.startswith("barnabas server: ")
    assert named in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("listeners=SSL://127.0.0.1:0", "ssl.keystore.location"),
        ("process.roles=broker", "controller"),
        ("authorizer.class.name=org.example.Authorizer", "authorizer.class.name"),
    ],
)
def test_what_cannot_be_done_yet_is_said(
    tmp_path: Path, override: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["server", "start", "--override", f"log.dirs={tmp_path / 'data'}", "--override", override]) == 1
    said = capsys.readouterr().err
    assert is_one_sentence(said), said
    assert named in said
    assert not (tmp_path / "data").exists()


def test_a_log_level_that_is_none_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BARNABAS_LOG_LEVEL", "loud")
    assert main(["up"]) == 1
    assert is_one_sentence(capsys.readouterr().err)


# server start, from nothing but variables


def test_the_variables_of_the_kafka_image_start_a_node(tmp_path: Path, reserve: Callable[[], int]) -> None:
    port, controller_port = reserve(), reserve()
    cluster_id = "4L6g3nShT-eMCtK--X86sw"
    variables = {
        "CLUSTER_ID": cluster_id,
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{controller_port}",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
    }
    with server(variables=variables) as program:
        answer = metadata(port, "made-by-asking")
        assert (answer.cluster_id, len(answer.topics[0].partitions)) == (cluster_id, 3)
        assert "WARNING" not in program.err
        assert program.stop() == 0


def test_the_variables_of_other_images_start_a_node(tmp_path: Path, reserve: Callable[[], int]) -> None:
    """Inside and outside of a network of containers the broker goes by different names."""
    inside, outside, controller = reserve(), reserve(), reserve()
    variables = {
        "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": (
            f"PLAINTEXT://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controller},PLAINTEXT_HOST://127.0.0.1:{outside}"
        ),
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:{outside}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": ("CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"),
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controller}",
        "KAFKA_JMX_PORT": "9101",
        "KAFKA_JMX_HOSTNAME": "localhost",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
    }
    with server(variables=variables) as program:
        assert [(each.host, each.port) for each in metadata(inside).brokers] == [("broker", 29092)]
        assert [(each.host, each.port) for each in metadata(outside).brokers] == [("localhost", outside)]
        assert f"clients broker:29092 (PLAINTEXT), clients localhost:{outside} (PLAINTEXT_HOST), " in program.err
        assert "WARNING" not in program.err


def test_a_variable_with_a_wrong_value_is_one_sentence() -> None:
    code, said = run("server", "start", variables={"KAFKA_NODE_ID": "first"})
    assert code == 1
    assert is_one_sentence(said), said
    assert "node.id" in said
    code, said = run("server", "start", variables={"CLUSTER_ID": "mine", "KAFKA_NODE_ID": "1"})
    assert code == 1
    assert is_one_sentence(said), said
    assert "CLUSTER_ID=mine" in said
