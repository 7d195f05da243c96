"""A node's life: whose directories these are, what a restart finds, and how it stops whatever its clients do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.nodes import serve
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.exchange import request_frame
from barnabas.node.configuration import BrokerConfig
from barnabas.node.node import Node as EmbeddedNode
from barnabas.node.raft.batches import build_batch
from barnabas.node.raft.load import load_metadata
from barnabas.testing import Node, StartFailed
from barnabas.wire.batch import decode_records, iterate_batches
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.records.metadata import FeatureLevelRecord
from barnabas.wire.uuids import Uuid
from tests.support.connections import connect_to
from tests.support.reference_batches import crafted_batch
from tests.support.waiting import wait_until

CLEAN_STOP = ".kafka_cleanshutdown"
STOP_LIMIT_S = 3.0
BROKER, TOPIC = 4, 2
# The last versions in which topics go by their names.
PRODUCE_VERSION, FETCH_VERSION = 12, 12


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def once(*, config: dict[str, object] | None = None, data_dir: Path | None = None) -> str:
    """Starts a node inside this process and stops it; its cluster."""

    async def live() -> str:
        async with Node(config, data_dir=data_dir) as node:
            return node.cluster_id

    return asyncio.run(live())


def refusal(*, config: dict[str, object] | None = None, data_dir: Path | None = None) -> str:
    with pytest.raises(StartFailed) as refused:
        once(config=config, data_dir=data_dir)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def produce(connection: Connection, topic: str, value: bytes, *, acks: int = 1, partition: int = 0) -> int:
    batch = crafted_batch([(b"key", value)], base_timestamp=int(time.time() * 1000))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    answer = connection.request(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]), PRODUCE_VERSION)
    part = answer.responses[0].partition_responses[0]
    if part.error_code:
        raise ConnectionError(ErrorCode(part.error_code).name)
    return int(part.base_offset)


def fetch_request(topic: str, offset: int, *, max_wait_ms: int = 0, partition: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)


def values(connection: Connection, topic: str, partition: int = 0) -> dict[int, bytes]:
    """All records of a partition, by offset."""
    found: dict[int, bytes] = {}
    while True:
        request = fetch_request(topic, max(found, default=-1) + 1, partition=partition)
        part = connection.request(request, FETCH_VERSION).responses[0].partitions[0]
        assert part.error_code == 0, ErrorCode(part.error_code).name
        if not part.records:
            assert part.high_watermark == max(found, default=-1) + 1
            return found
        data = memoryview(bytes(part.records))
        for position, header in iterate_batches(data):
            found |= {each.offset: bytes(each.value or b"") for each in decode_records(data, position, header)}


def config_value(connection: Connection, kind: int, name: str, key: str) -> str:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    value = connection.request(DescribeConfigsRequest(resources=[resource])).results[0].configs[0].value
    assert isinstance(value, str)
    return value


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# Whose directory is this?


def test_a_directory_is_formatted_once_and_keeps_its_cluster(tmp_path: Path) -> None:
    cluster_id = once(data_dir=tmp_path / "data")
    meta = (tmp_path / "data" / "meta.properties").read_text()
    assert f"cluster.id={cluster_id}\n" in meta
    assert (tmp_path / "data" / "bootstrap.checkpoint").exists()
    assert (tmp_path / "data" / CLEAN_STOP).exists()
    assert once(data_dir=tmp_path / "data") == cluster_id
    assert (tmp_path / "data" / "meta.properties").read_text() == meta


def test_a_second_process_is_refused(node: Node) -> None:
    with pytest.raises(StartFailed) as refused, Node(data_dir=node.data_dir):
        pass
    assert str(refused.value) == f"{node.data_dir} is in use by another process"
    with node.connect() as connection:
        assert connection.request(MetadataRequest(topics=[])).brokers[0].port == node.port


def test_a_second_node_in_the_same_process_is_refused(tmp_path: Path) -> None:
    async def both() -> None:
        async with Node(data_dir=tmp_path) as first:
            with pytest.raises(StartFailed, match="in use by this process already"):
                async with Node(data_dir=tmp_path):
                    pass
            (await asyncio.to_thread(connect_to, first.port)).close()
        async with Node(data_dir=tmp_path):
            pass

    asyncio.run(both())


def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    once(data_dir=tmp_path)
    assert refusal(config={"node.id": 2}, data_dir=tmp_path) == f"{tmp_path} belongs to node 1, and this is node 2"
    once(data_dir=tmp_path)


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    cluster_id = once(data_dir=tmp_path)
    other = str(Uuid.random())

    async def start() -> None:
        properties = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
        await EmbeddedNode.start(BrokerConfig.from_properties(properties, cluster_id=other))

    with pytest.raises(Exception, match=f"belongs to cluster {cluster_id}, not to cluster {other}"):
        asyncio.run(start())
    assert once(data_dir=tmp_path) == cluster_id


@pytest.mark.parametrize("level", [24, 31, 99])
def test_a_metadata_level_that_we_do_not_know_is_refused(tmp_path: Path, level: int) -> None:
    once(data_dir=tmp_path)
    meta = dict(line.split("=") for line in (tmp_path / "meta.properties").read_text().splitlines() if "=" in line)
    loaded = load_metadata(tmp_path, node_id=1, directory_id=Uuid.parse(meta["directory.id"]))
    record = FeatureLevelRecord(name="metadata.version", feature_level=level)
    batch = build_batch([record], 25, base_offset=loaded.end_offset, epoch=loaded.epoch, now_ms=loaded.timestamp_ms)
    (log,) = (tmp_path / "__cluster_metadata-0").glob("*.log")
    with open(log, "ab") as file:
        file.write(batch)
    said = refusal(data_dir=tmp_path)
    assert str(tmp_path) in said
    assert str(level) in said
    assert log.read_bytes().endswith(batch), "what is refused is not touched"
    assert (tmp_path / CLEAN_STOP).exists()


def test_meta_properties_that_cannot_be_understood_are_refused(tmp_path: Path) -> None:
    once(data_dir=tmp_path)
    meta = tmp_path / "meta.properties"
    replace_in(meta, "version=1", "version=7")
    assert refusal(data_dir=tmp_path) == f"{meta} has version 7, only version 1 is supported"
    replace_in(meta, "version=7", "version=1")
    replace_in(meta, "node.id=1", "node.id=one")
    assert str(meta) in refusal(data_dir=tmp_path)
    replace_in(meta, "node.id=one\n", "")
    assert refusal(data_dir=tmp_path) == f"{meta} lacks node.id"


def test_metadata_without_an_identity_is_left_alone(tmp_path: Path) -> None:
    once(data_dir=tmp_path)
    (tmp_path / "meta.properties").unlink()
    before = {path: path.read_bytes() for path in (tmp_path / "__cluster_metadata-0").iterdir()}
    assert "no meta.properties" in refusal(data_dir=tmp_path)
    assert {path: path.read_bytes() for path in (tmp_path / "__cluster_metadata-0").iterdir()} == before


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("precious")
    assert refusal(data_dir=tmp_path / "data") == f"{tmp_path / 'data'} is to be a log directory and is a file"
    below = tmp_path / "data" / "below"
    assert refusal(data_dir=below) == f"A log directory cannot be used: {below}: Not a directory"
    assert (tmp_path / "data").read_text() == "precious"


# Several directories


def directories(tmp_path: Path, *names: str) -> dict[str, object]:
    return {"log.dirs": [tmp_path / name for name in names]}


def partitions_in(path: Path) -> set[str]:
    return {each.name for each in path.iterdir() if each.is_dir() and not each.name.startswith("__cluster_metadata")}


def test_partitions_are_spread_and_a_further_directory_is_welcome(tmp_path: Path) -> None:
    with Node(directories(tmp_path, "a", "b")) as node:
        node.create_topic("orders", 4)
    assert len(partitions_in(tmp_path / "a")) == len(partitions_in(tmp_path / "b")) == 2
    with Node(directories(tmp_path, "a", "b", "c")) as node:
        node.create_topic("payments", 2)
    assert partitions_in(tmp_path / "c") == {"payments-0", "payments-1"}


def test_records_in_a_directory_that_is_missing_are_offline_until_it_is_back(tmp_path: Path) -> None:
    """A disk that was not mounted must not look like a topic that was never written to."""
    config = directories(tmp_path, "a", "b")
    with Node(config) as node:
        node.create_topic("orders", 2)
        with node.connect() as connection:
            for partition in (0, 1):
                produce(connection, "orders", b"kept", partition=partition)
        wait_until(lambda: offline_partitions(node) == [])
    missing = int(partitions_in(tmp_path / "b").pop().rpartition("-")[2])
    (tmp_path / "b").rename(tmp_path / "unmounted")
    for _ in range(2):  # and still at the next start
        with Node(config) as node, node.connect() as connection:
            assert offline_partitions(node) == [missing]
            assert values(connection, "orders", 1 - missing) == {0: b"kept"}
            with pytest.raises(ConnectionError, match="KAFKA_STORAGE_ERROR"):
                produce(connection, "orders", b"lost?", partition=missing)
        assert partitions_in(tmp_path / "b") == set()
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "unmounted").rename(tmp_path / "b")
    with Node(config) as node, node.connect() as connection:
        assert offline_partitions(node) == []
        assert produce(connection, "orders", b"more", partition=missing) == 1


def offline_partitions(node: Node) -> list[int]:
    with node.connect() as connection:
        answer = connection.request(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    return [each.partition_index for each in answer.topics[0].partitions if each.offline_replicas]


def test_the_directory_of_the_metadata_cannot_be_missing(tmp_path: Path) -> None:
    cluster_id = once(config=directories(tmp_path, "a", "b"))
    shutil.rmtree(tmp_path / "a")
    said = refusal(config=directories(tmp_path, "a", "b"))
    assert said == f"{tmp_path / 'a'} has no metadata log, but other directories are of cluster {cluster_id}"


def test_a_copy_of_a_directory_is_refused(tmp_path: Path) -> None:
    once(config=directories(tmp_path, "a", "b"))
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    said = refusal(config=directories(tmp_path, "a", "b", "c"))
    assert said == f"{tmp_path / 'c'} and {tmp_path / 'b'} are copies of one directory"


def test_a_directory_of_another_cluster_beside_ours_is_refused(tmp_path: Path) -> None:
    ours, other = once(data_dir=tmp_path / "a"), once(data_dir=tmp_path / "b")
    said = refusal(config=directories(tmp_path, "a", "b"))
    assert said == f"{tmp_path / 'b'} belongs to cluster {other}, not to cluster {ours}"


def test_all_directories_are_free_after_a_refusal(tmp_path: Path) -> None:
    once(data_dir=tmp_path / "b")
    refusal(config=directories(tmp_path, "a", "b") | {"node.id": 5})
    once(data_dir=tmp_path / "a")
    once(data_dir=tmp_path / "b")


def test_the_metadata_may_have_a_directory_of_its_own(tmp_path: Path) -> None:
    config = directories(tmp_path, "a") | {"metadata.log.dir": tmp_path / "metadata"}
    with Node(config) as node:
        node.create_topic("orders")
        with node.connect() as connection:
            produce(connection, "orders", b"kept")
        node.restart()
        with node.connect() as connection:
            assert values(connection, "orders") == {0: b"kept"}
    assert (tmp_path / "metadata" / "__cluster_metadata-0").exists()
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


# Restarts


def test_everything_answered_is_there_after_a_kill(node: Node) -> None:
    """Writers of both kinds are at work when the node dies; what they were told is true afterwards."""
    node.create_topic("one", config={"retention.ms": 123456})
    node.create_topic("all")
    acknowledged: dict[str, dict[int, bytes]] = {"one": {}, "all": {}}
    enough = threading.Barrier(3)

    def write(topic: str, acks: int) -> None:
        try:
            with node.connect() as connection:
                for number in range(1_000_000):
                    value = b"%s-%d" % (topic.encode(), number)
                    acknowledged[topic][produce(connection, topic, value, acks=acks)] = value
                    if number == 50:
                        enough.wait(20)
        except (ClientError, ConnectionError):
            pass

    with node.connect() as connection:
        altered = AlterConfigsResource(
            resource_type=BROKER,
            resource_name="1",
            configs=[AlterableConfig(name="log.cleaner.backoff.ms", value="4321")],
        )
        assert connection.request(AlterConfigsRequest(resources=[altered])).responses[0].error_code == 0
    writers = [threading.Thread(target=write, args=args) for args in (("one", 1), ("all", -1))]
    for writer in writers:
        writer.start()
    enough.wait(20)
    node.kill()
    for writer in writers:
        writer.join()
    node.start()
    with node.connect() as connection:
        for topic, told in acknowledged.items():
            assert len(told) > 50
            found = values(connection, topic)
            assert {offset: found.get(offset) for offset in told} == told
            assert len(found) - len(told) in (0, 1), "no more than the one whose answer was under way"
        assert config_value(connection, TOPIC, "one", "retention.ms") == "123456"
        assert config_value(connection, BROKER, "1", "log.cleaner.backoff.ms") == "4321"


def test_no_producer_id_is_given_twice(node: Node) -> None:
    given: list[int] = []

    def take(count: int) -> None:
        with node.connect() as connection:
            for _ in range(count):
                answer = connection.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
                assert (answer.error_code, answer.producer_epoch) == (0, 0)
                given.append(answer.producer_id)

    for count, end in ((3, node.kill), (1002, node.stop), (1, node.kill), (3, node.stop)):
        take(count)
        end()
        node.start()
    assert len(set(given)) == len(given)


def test_the_ways_of_ending_are_marked_for_the_next_start(node: Node) -> None:
    def epoch_left_behind() -> int:
        marker = json.loads((node.data_dir / CLEAN_STOP).read_text())
        assert marker["version"] == 0
        return int(marker["brokerEpoch"])

    node.stop()
    first = epoch_left_behind()
    node.start()
    assert not (node.data_dir / CLEAN_STOP).exists()
    node.kill()
    assert not (node.data_dir / CLEAN_STOP).exists()
    node.restart()
    node.stop()
    assert epoch_left_behind() > first


def test_a_start_after_a_kill_is_as_fast_as_the_first(node: Node) -> None:
    """Apache Kafka waits until its former registration times out. Generous: it is about seconds, not about noise."""
    node.create_topic("orders", 10)
    with node.connect() as connection:
        for number in range(200):
            produce(connection, "orders", b"x" * 1000, partition=number % 10)
    began = time.monotonic()
    with Node():
        first_s = time.monotonic() - began
    node.kill()
    began = time.monotonic()
    node.start()
    with node.connect() as connection:
        produce(connection, "orders", b"again")
    assert time.monotonic() - began < 3 * first_s + 1


def test_a_kill_at_any_moment_of_the_start_does_no_harm(node: Node) -> None:
    """The node is asked to stop while it is starting, later and later; nothing is lost and the locks are free."""
    node.create_topic("orders", 3)
    with node.connect() as connection:
        produce(connection, "orders", b"kept")
    node.kill()
    properties = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "log.dirs": str(node.data_dir),
    }

    async def start_for(turns: int) -> bool:
        """As a signal during the start does it; whether the node came up before."""

        async def until_asked() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        asked = asyncio.ensure_future(until_asked())
        started = await serve._started(BrokerConfig.from_properties(properties), asked)
        asked.cancel()
        if started is not None:
            await started.stop()
        return started is not None

    threads = threading.active_count()
    came_up = [asyncio.run(start_for(turns)) for turns in (0, 1, 2, 3, 5, 8, 13, 100, 200, 1_000_000)]
    assert came_up[0] is False
    assert came_up[-1] is True
    assert threading.active_count() == threads
    node.start()
    with node.connect() as connection:
        assert values(connection, "orders") == {0: b"kept"}


# Stopping


def stops_in_time(node: Node) -> None:
    began = time.monotonic()
    node.stop()
    assert time.monotonic() - began < STOP_LIMIT_S
    assert (node.data_dir / CLEAN_STOP).exists()


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(10)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_clients_that_do_not_close_do_not_keep_a_node(node: Node) -> None:
    idle = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(50)]
    idle[0].sendall(struct.pack(">i", 1000) + b"half a frame")
    stops_in_time(node)
    assert all(map(is_closed, idle))
    for each in idle:
        each.close()


def test_a_waiting_fetch_is_answered_when_the_node_stops(node: Node) -> None:
    node.create_topic("empty")
    with node.connect() as connection:
        connection.send(fetch_request("empty", 0, max_wait_ms=30_000), FETCH_VERSION)
        with node.connect() as other:  # The fetch has certainly arrived once a later request has been answered.
            other.request(MetadataRequest(topics=[]))
        stops_in_time(node)
        answer = connection.receive()
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)


def test_what_was_answered_before_a_stop_is_there_and_nobody_waits(node: Node) -> None:
    node.create_topic("busy")
    acknowledged: list[dict[int, bytes]] = [{} for _ in range(4)]
    started = threading.Barrier(5)

    def write(told: dict[int, bytes], name: int) -> None:
        try:
            with node.connect() as connection:
                for number in range(1_000_000):
                    value = b"%d-%d" % (name, number)
                    told[produce(connection, "busy", value, acks=-1)] = value
                    if number == 20:
                        started.wait(20)
        except (ClientError, ConnectionError):
            pass

    writers = [threading.Thread(target=write, args=(told, name)) for name, told in enumerate(acknowledged)]
    for writer in writers:
        writer.start()
    started.wait(20)
    stops_in_time(node)
    for writer in writers:
        writer.join()
    node.start()
    with node.connect() as connection:
        found = values(connection, "busy")
    told = {offset: value for each in acknowledged for offset, value in each.items()}
    assert {offset: found.get(offset) for offset in told} == told


def test_a_client_that_does_not_read_does_not_keep_a_node(node: Node) -> None:
    node.create_topic("large", config={"max.message.bytes": 2_000_000})
    with node.connect() as connection:
        for _ in range(8):
            produce(connection, "large", b"x" * 1_000_000)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", node.port))
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 24)
        topics = [FetchTopic(topic="large", partitions=[wanted])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 24, topics=topics)
        for number in range(4):
            deaf.sendall(request_frame(request, FETCH_VERSION, number, "deaf"))
        deaf.settimeout(20)
        assert deaf.recv(4)
        stops_in_time(node)


@pytest.mark.parametrize("found_out", ["while it runs", "when it stops"])
def test_a_node_that_loses_its_directory_says_so(node: Node, found_out: str) -> None:
    """Somebody removes it from under the running node. The next start begins anew."""
    node.create_topic("orders")
    shutil.rmtree(node.data_dir)
    if found_out == "while it runs":
        with contextlib.suppress(ClientError, KafkaError):
            node.reset()
        wait_until(lambda: not node.running)
    else:
        node.stop()
    assert "Traceback" not in node.log()
    last = node.log().splitlines()[-1]
    assert last.startswith("barnabas server: The ")
    assert str(node.data_dir) in last
    node.start()
    with node.connect() as connection:
        assert connection.request(MetadataRequest(topics=None)).topics == []
