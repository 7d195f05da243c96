"""What a team gets for its tests: the node as a context manager, inside an event loop, and as pytest's fixtures."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from barnabas.client.errors import BrokerUnreachable
from barnabas.testing import Node, StartFailed
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.waiting import wait_until

pytest_plugins = "pytester"

LIMIT_S = 20.0


@pytest.fixture
def node(barnabas: Node) -> Node:
    return barnabas


def is_gone(pid: int) -> bool:
    """Or waits to be collected by whoever has adopted it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def partitions(node: Node) -> dict[str, int]:
    with node.connect() as connection:
        return {each.name: len(each.partitions) for each in connection.request(MetadataRequest(topics=None)).topics}


# The context manager


def test_the_block_is_the_node_s_life() -> None:
    node = Node()
    assert not node.running
    assert repr(node) == "<Node not running, data in a temporary directory>"
    with node as entered:
        assert entered is node
        pid, directory = node.pid, node.data_dir.parent
        assert node.running
        assert node.bootstrap_servers == f"127.0.0.1:{node.port}"
        assert repr(node) == f"<Node at 127.0.0.1:{node.port}, data in {node.data_dir}>"
        assert (node.data_dir / "meta.properties").exists()
        assert f"of cluster {node.cluster_id} serves" in node.log()
    assert not node.running
    assert is_gone(pid)
    assert not directory.exists()


def imported(said: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}


def test_a_node_of_a_test_imports_what_barnabas_up_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # told on standard error, module by module
    with Node() as node:
        of_node = imported(node.log())
    words = [sys.executable, "-m", "barnabas", "up", "--port", "0", "--data-dir", str(tmp_path / "data")]
    with open(tmp_path / "said", "wb") as said:
        up = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, env=os.environ | {"PYTHONSAFEPATH": "1"})
    try:
        assert up.stdout is not None
        assert up.stdout.readline().startswith(b"Barnabas is up: ")
        of_up = imported((tmp_path / "said").read_text())
    finally:
        up.terminate()
        up.communicate(timeout=LIMIT_S)
    assert len(of_up) > 100
    assert of_node - of_up == set()


def test_an_error_in_the_block_ends_the_node_and_is_not_hidden() -> None:
    node = Node()
    pids = []

    def fail() -> None:
        with node:
            pids.append(node.pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert is_gone(pids[0])


def test_close_does_no_harm_twice_and_a_closed_node_starts_anew() -> None:
    node = Node()
    node.close()
    node.start()
    first = node.cluster_id
    node.create_topic("gone")
    node.close()
    node.close()
    assert not node.data_dir.exists()
    with node:
        assert node.cluster_id != first
        assert partitions(node) == {}
    assert not node.data_dir.parent.exists()


def test_what_is_not_running_says_so() -> None:
    node = Node()
    with pytest.raises(RuntimeError, match="pid is for a node with a process of its own, and this one has not been"):
        _ = node.pid
    with pytest.raises(RuntimeError, match="has not been started"):
        node.kill()
    node.stop()
    assert node.log() == ""
    with node, pytest.raises(RuntimeError, match="running already"):
        node.start()


def test_ports_and_data_stay_over_every_kind_of_end(own_node: Node) -> None:
    ports, cluster_id, directory = dict(own_node.ports), own_node.cluster_id, own_node.data_dir
    own_node.create_topic("kept", 3)
    for end in (own_node.stop, own_node.kill, lambda: None):
        end()
        own_node.restart()
        assert (own_node.ports, own_node.cluster_id, own_node.data_dir) == (ports, cluster_id, directory)
        assert partitions(own_node) == {"kept": 3}
    assert own_node.log().count("serves") == 4


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a port be reserved for a listener to come")
def test_nobody_takes_the_port_of_a_node_that_is_down(own_node: Node) -> None:
    own_node.kill()
    with pytest.raises(BrokerUnreachable, match="connection refused"):
        own_node.connect()
    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("127.0.0.1", own_node.port))
    own_node.start()


def test_a_given_directory_outlives_the_node(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path / "deep" / "data") as node:
        cluster_id = node.cluster_id
        node.create_topic("kept")
    assert (tmp_path / "deep" / "data" / ".kafka_cleanshutdown").exists()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["data"], "and nothing is left beside it"
    with Node(data_dir=str(tmp_path / "deep" / "data")) as node:
        assert (node.cluster_id, partitions(node)) == (cluster_id, {"kept": 1})


def test_any_key_of_kafka_s_configures_it(tmp_path: Path) -> None:
    config = {"num.partitions": 7, "auto.create.topics.enable": True, "log.dirs": [tmp_path / "a", tmp_path / "b"]}
    with Node(config) as node, node.connect() as connection:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="made-by-asking")])
        assert len(connection.request(asked).topics[0].partitions) == 7
    assert (tmp_path / "a" / "meta.properties").exists()
    assert (tmp_path / "b" / "meta.properties").exists()


def test_listeners_of_one_s_own_keep_their_ports_too() -> None:
    config = {
        "listeners": "INTERNAL://127.0.0.1:0, EXTERNAL://127.0.0.1:0, QUORUM://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,QUORUM:PLAINTEXT",
        "advertised.listeners": "INTERNAL://broker:29092,EXTERNAL://127.0.0.1:0",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "QUORUM",
    }
    with Node(config) as node:
        ports = dict(node.ports)
        assert (node.port, node.controller_port) == (ports["INTERNAL"], ports["QUORUM"])
        assert set(ports) == {"INTERNAL", "EXTERNAL", "QUORUM"}
        node.restart()
        assert node.ports == ports


def test_a_topic_is_created_as_wished_or_refused(node: Node) -> None:
    node.create_topic("orders", 3, {"retention.ms": 1000, "preallocate": True})
    assert partitions(node) == {"orders": 3}
    with pytest.raises(KafkaError) as refused:
        node.create_topic("orders")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError) as refused:
        node.create_topic("others", config={"retention.ms": "long"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_several_nodes_live_beside_each_other_and_in_threads() -> None:
    def live(name: str) -> tuple[int, str, dict[str, int]]:
        with Node() as node:
            node.create_topic(name)
            node.restart()
            return node.port, node.cluster_id, partitions(node)

    with ThreadPoolExecutor(3) as threads:
        lives = list(threads.map(live, ["a", "b", "c"]))
    ports, clusters, topics = zip(*lives, strict=True)
    assert len(set(ports)) == len(set(clusters)) == 3
    assert topics == ({"a": 1}, {"b": 1}, {"c": 1})


def test_one_node_is_used_from_many_threads(own_node: Node) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(own_node.create_topic, [f"topic-{number}" for number in range(24)]))
        assert len(partitions(own_node)) == 24
        ends: list[Callable[[], None]] = [own_node.stop] * 4 + [own_node.close] * 4
        list(threads.map(lambda end: end(), ends))
    assert not own_node.running


# Failing to start


def test_a_node_that_does_not_start_repeats_its_own_sentence(tmp_path: Path) -> None:
    with pytest.raises(StartFailed) as failed, Node({"num.partitions": 0}):
        pass
    assert str(failed.value).startswith("Invalid value 0 for configuration num.partitions")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartFailed) as failed, Node(port=port):
            pass
    assert str(failed.value) == f"The listener PLAINTEXT://127.0.0.1:{port} cannot be opened: Address already in use"
    (tmp_path / "file").touch()
    with pytest.raises(StartFailed) as failed, Node(data_dir=tmp_path / "file"):
        pass
    assert str(failed.value) == f"{tmp_path / 'file'} is to be a log directory and is a file"


def test_a_failed_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(StartFailed), Node({"num.partitions": 0}):
        pass
    with pytest.raises(StartFailed, match=r"was not ready within 0\.01 s"), Node(timeout_s=0.01):
        pass
    with pytest.raises(StartFailed):
        asyncio.run(enter(Node({"num.partitions": 0})))
    assert list(tmp_path.iterdir()) == []


async def enter(node: Node) -> None:
    async with node:
        pass


def test_only_the_last_start_s_words_are_repeated(own_node: Node) -> None:
    own_node.stop()
    meta = own_node.data_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=8"))
    with pytest.raises(StartFailed) as failed:
        own_node.start()
    assert str(failed.value) == f"{own_node.data_dir} belongs to node 8, and this is node 1"


def test_the_environment_of_the_tests_is_not_the_node_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Many a project sets KAFKA_ variables for its own service, and has a module of an unlucky name."""
    monkeypatch.setenv("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://kafka.example.org:9092")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka.example.org:9092")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "many")
    monkeypatch.setenv("CLUSTER_ID", "staging")
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong module')")
    (tmp_path / "barnabas").mkdir()
    monkeypatch.chdir(tmp_path)
    with Node() as node, node.connect() as connection:
        broker = connection.request(MetadataRequest(topics=[])).brokers[0]
        assert (broker.host, broker.port) == ("127.0.0.1", node.port)
        assert "WARNING" not in node.log()


# Orphans

ORPHANED = """
import os, sys, time
from barnabas.testing import Node

node = Node().start()
child = os.fork() if "fork" in sys.argv else -1
if child:
    print(node.pid, child, node.data_dir.parent, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("forks", [False, True])
def test_no_node_outlives_a_test_run_that_is_killed(forks: bool) -> None:
    """A forked child still holds the node's standard input open."""
    command = [sys.executable, "-c", ORPHANED, *(["fork"] if forks else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        node, child, directory = run.stdout.readline().split()
        run.kill()
        run.wait()
        try:
            wait_until(lambda: is_gone(int(node)))
        finally:
            if forks:
                os.kill(int(child), signal.SIGKILL)
    assert (Path(directory) / "data" / ".kafka_cleanshutdown").exists(), "it was a clean stop"
    shutil.rmtree(directory)


# Inside an event loop

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Any]]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


async def round_trip(servers: str) -> list[bytes | None]:
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number)
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition("orders", 0)])
        return [(await consumer.getone()).value for _ in range(10)]


def test_a_node_lives_inside_the_running_loop(run: Callable[[Any], Any]) -> None:
    async def story() -> None:
        threads = threading.active_count()
        async with Node() as node:
            assert node.running
            assert await round_trip(node.bootstrap_servers) == [b"%d" % number for number in range(10)]
            await asyncio.to_thread(node.reset)
            assert await asyncio.to_thread(partitions, node) == {}
            await asyncio.to_thread(node.create_topic, "orders", 2)
            assert await asyncio.to_thread(partitions, node) == {"orders": 2}
            directory = node.data_dir
        assert not node.running
        assert not directory.exists()
        await asyncio.get_running_loop().shutdown_default_executor()
        wait_until(lambda: threading.active_count() <= threads)

    run(story())


def test_several_nodes_share_a_loop(run: Callable[[Any], Any]) -> None:
    async def story() -> None:
        async with Node() as first, Node() as second:
            assert first.port != second.port
            await asyncio.gather(*(round_trip(node.bootstrap_servers) for node in (first, second)))

    run(story())


def test_a_blocking_call_inside_the_loop_is_refused_at_once() -> None:
    """It would wait for an answer that only the loop it blocks can give."""

    async def story() -> None:
        async with Node() as node:
            for call in (node.reset, node.connect, lambda: node.create_topic("orders")):
                with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
                    call()
            for call in (node.stop, node.kill, node.restart, node.close, lambda: node.pid):
                with pytest.raises(RuntimeError, match="this one runs inside an event loop"):
                    call()
            with pytest.raises(RuntimeError, match="running already"):
                node.start()

    asyncio.run(story())


def test_a_cancelled_block_stops_the_node(tmp_path: Path) -> None:
    async def live(entered: asyncio.Event) -> None:
        async with Node(data_dir=tmp_path):
            entered.set()
            await asyncio.sleep(60)

    async def story() -> None:
        entered = asyncio.Event()
        living = asyncio.create_task(live(entered))
        await entered.wait()
        living.cancel()
        await asyncio.wait([living])
        assert living.cancelled()

    asyncio.run(story())
    assert (tmp_path / ".kafka_cleanshutdown").exists()


# pytest's fixtures

PROJECT = """
import asyncio, json, os, pathlib
import pytest
from aiokafka import AIOKafkaProducer
from barnabas.wire.messages.metadata import MetadataRequest

def topics(node):
    with node.connect() as connection:
        return {each.name: len(each.partitions) for each in connection.request(MetadataRequest(topics=None)).topics}

@pytest.fixture(scope="session")
def barnabas_config():
    return {"num.partitions": 3}

def test_the_run_has_one_node(barnabas_node, barnabas):
    assert barnabas is barnabas_node
    seen = {"pid": barnabas.pid, "port": barnabas.port, "directory": str(barnabas.data_dir.parent)}
    pathlib.Path(os.environ["SEEN"]).write_text(json.dumps(seen))
    barnabas.create_topic("left-behind")

def test_each_test_finds_it_empty(barnabas):
    assert topics(barnabas) == {}

def test_the_address_is_enough(bootstrap_servers, barnabas_node):
    assert bootstrap_servers == barnabas_node.bootstrap_servers

async def write(servers):
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait("orders", b"one")

def test_asynchronous_code(barnabas):
    asyncio.run(write(barnabas.bootstrap_servers))
    assert topics(barnabas) == {"orders": 3}

@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_test_may_end_it(barnabas, end):
    getattr(barnabas, end)()

def test_the_next_one_finds_it_running(barnabas, barnabas_node):
    assert topics(barnabas) == {}
"""


def start_pytest(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=directory,
        env=os.environ | {"SEEN": str(directory / "seen.json")},
    )


def test_the_fixtures_in_two_runs_at_once(tmp_path: Path) -> None:
    """As two workers of one run, or of two projects, on one machine: nothing is shared."""
    runs = []
    for name in ("first", "second"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "test_project.py").write_text(PROJECT)
        (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
        runs.append((directory, start_pytest(directory)))
    seen = []
    for directory, run in runs:
        said, _ = run.communicate(timeout=60)
        assert "7 passed" in said, said
        seen.append(json.loads((directory / "seen.json").read_text()))
    for key in ("pid", "port", "directory"):
        assert seen[0][key] != seen[1][key]
    for each in seen:
        assert is_gone(each["pid"])
        assert not Path(each["directory"]).exists()


def test_who_does_not_use_the_fixtures_pays_nothing_for_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_was_imported():
            ours = {name for name in sys.modules if name.partition(".")[0] == "barnabas"}
            assert ours == {"barnabas", "barnabas.testing", "barnabas.testing.plugin"}
            foreign = ("aiokafka", "uvloop", "cramjam", "crc32c", "asyncio")
            assert not [name for name in foreign if name in sys.modules]
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:timeout", "-p", "no:anyio")
    result.assert_outcomes(passed=1)


def test_the_plugin_is_imported_in_milliseconds() -> None:
    measure = (
        "import pytest, time; began = time.perf_counter(); import barnabas.testing.plugin;"
        "print((time.perf_counter() - began) * 1000)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", measure], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 20


def test_the_fixtures_are_described(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--fixtures", "-p", "no:cacheprovider")
    said = result.stdout.str()
    for name in ("barnabas_node", "barnabas_config", "barnabas ", "bootstrap_servers"):
        assert name in said
    assert "no docstring available" not in said[said.index("barnabas") :].split("pytest")[0]
