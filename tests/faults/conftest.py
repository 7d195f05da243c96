"""A node whose files were harmed while it was down, or whose disk fails while it runs.

The data directories that are harmed are copies of two that were made once: one left by a node that was killed, one left
by a node that stopped. Each topic in them has the same forty batches of one record in four segments; the first three
segments lie below the recovery point.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from barnabas.client.connection import Connection
from barnabas.testing import Node
from barnabas.testing.process import StartFailed
from barnabas.wire.batch import Record, build_batch, decode_records, iterate_batches
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.uuids import ZERO_UUID
from tests.support.waiting import wait_until

TOPICS = 44
BATCHES = 40
PER_SEGMENT = 10
PRODUCER_ID = 5000
CONFIG = {
    "log.flush.offset.checkpoint.interval.ms": 50,
    "log.initial.task.delay.ms": 3_600_000,
    "log.cleaner.backoff.ms": 3_600_000,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
}
WAIT_S = 20.0


def topic_name(number: int) -> str:
    return f"t{number:02d}"


def value_of(offset: int) -> bytes:
    return b"%04d" % offset + b"." * 200


def batch_of(offset: int) -> bytes:
    record = Record(0, time.time_ns() // 1_000_000, b"key", value_of(offset))
    return bytes(build_batch([record], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=offset))


class Produced(NamedTuple):
    error: int
    offset: int


class Client:
    """Writes and reads single partitions, and raises nothing for what the node refuses."""

    def __init__(self, node: Node) -> None:
        self.connection: Connection = node.connect()

    def produce(self, topic: str, batch: bytes, acks: int = -1) -> Produced:
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
        answer = self.connection.request(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data), 9)
        result = answer.responses[0].partition_responses[0]
        return Produced(result.error_code, result.base_offset)

    def fetch(self, topic: str, offset: int, *, read_committed: bool = False) -> Any:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 24,
            isolation_level=int(read_committed),
            topics=[FetchTopic(topic=topic, topic_id=ZERO_UUID, partitions=[asked])],
        )
        return self.connection.request(request, 12).responses[0].partitions[0]

    def offset(self, topic: str, timestamp: int) -> int:
        """-2 for the earliest, -1 for the latest."""
        topics = [
            ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
        ]
        found = self.connection.request(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics[0].partitions[0]
        assert found.error_code == 0, found
        offset: int = found.offset
        return offset

    def end_of_epoch(self, topic: str, epoch: int) -> int:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        answer = self.connection.request(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
        found = answer.topics[0].partitions[0]
        assert (found.error_code, found.leader_epoch) == (0, epoch), found
        end: int = found.end_offset
        return end

    def read(self, topic: str, offset: int = 0) -> tuple[dict[int, bytes], int]:
        """The values from an offset on, and the error that ended the reading, 0 if it was the end."""
        found: dict[int, bytes] = {}
        end = self.offset(topic, -1)
        while offset < end:
            answer = self.fetch(topic, offset)
            if answer.error_code:
                return found, answer.error_code
            assert answer.records, f"nothing at {offset} of {topic}, which ends at {end}"
            for position, header in iterate_batches(answer.records):
                found |= {each.offset: each.value or b"" for each in decode_records(answer.records, position)}
                offset = header.last_offset + 1
        return found, 0

    def create_topics(self, names: list[str], **config: object) -> list[int]:
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in config.items()]
        topics = [CreatableTopic(name=each, num_partitions=1, replication_factor=1, configs=settings) for each in names]
        answer = self.connection.request(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        return [each.error_code for each in answer.topics]

    def delete_topic(self, name: str) -> int:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        code: int = self.connection.request(request, 6).responses[0].error_code
        return code

    def configure(self, topic: str, **config: object) -> None:
        changes = [
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=str(value))
            for key, value in config.items()
        ]
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=changes)
        [result] = self.connection.request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert result.error_code == 0, result

    def close(self) -> None:
        self.connection.close()


def fill(client: Client, topics: list[str]) -> None:
    for offset in range(BATCHES):
        batch = batch_of(offset)
        data = [TopicProduceData(name=each, partition_data=[PartitionProduceData(records=batch)]) for each in topics]
        answer = client.connection.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
        assert all(part.error_code == 0 for each in answer.responses for part in each.partition_responses)


def recovery_points(root: Path) -> dict[str, int]:
    try:
        lines = (root / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    except FileNotFoundError:
        return {}
    found = (line.split() for line in lines)
    return {topic: int(offset) for topic, partition, offset in found if partition == "0"}


def set_recovery_points(root: Path, offset: int) -> None:
    """A flush may have come late and taken more along than the segments that were full."""
    points = dict.fromkeys(recovery_points(root), offset) | {"aborted": 0}
    lines = ["0", str(len(points)), *(f"{topic} 0 {at}" for topic, at in points.items())]
    (root / "recovery-point-offset-checkpoint").write_text("".join(f"{line}\n" for line in lines))


class Templates(NamedTuple):
    killed: Path
    clean: Path


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """Two topics, `t00` and `t01`, and `aborted`."""
    return make_templates(tmp_path_factory.mktemp("faults"), 2, abort_some)


@pytest.fixture(scope="session")
def many_topics(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return make_templates(tmp_path_factory.mktemp("many"), TOPICS, lambda node: None)


def make_templates(root: Path, count: int, also: Callable[[Node], None]) -> Templates:
    made = Templates(root / "killed", root / "clean")
    topics = [topic_name(number) for number in range(count)]
    last_segment = BATCHES - PER_SEGMENT
    with Node(CONFIG, data_dir=root / "data") as node:
        client = Client(node)
        size = PER_SEGMENT * len(batch_of(0))
        assert not any(client.create_topics(topics, segment_bytes=size, index_interval_bytes=300, retention_ms=-1))
        fill(client, topics)
        also(node)
        wait_until(lambda: all(recovery_points(root / "data").get(topic, 0) >= last_segment for topic in topics))
        client.close()
        node.kill()
        shutil.copytree(root / "data", made.killed)
        set_recovery_points(made.killed, last_segment)
        node.start()
    shutil.copytree(root / "data", made.clean)
    return made


def abort_some(node: Node) -> None:
    """The topic `aborted`: committed and aborted transactions in several segments."""
    from confluent_kafka import Producer

    node.create_topic("aborted", config={"segment.bytes": 2000, "retention.ms": -1})
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "transactional.id": "faults", "linger.ms": 0})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce("aborted", b"%d" % number + b"." * 300, partition=0)
            producer.flush()
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


@pytest.fixture
def start() -> Iterator[Callable[..., Node]]:
    """Starts a node on a directory; it is stopped at the end of the test."""
    started: list[Node] = []

    def run(root: Path, **config: object) -> Node:
        given = {key.replace("_", "."): value for key, value in config.items()}
        node = Node(CONFIG | given, data_dir=root)
        started.append(node)
        return node.start()

    yield run
    for node in started:
        said = node.log()
        node.close()
        assert "Traceback" not in said, said[-5000:]


def refusal(root: Path, **config: object) -> str:
    """The sentence with which a node refuses to start on a directory, and nothing but the sentence."""
    given = {key.replace("_", "."): value for key, value in config.items()}
    node = Node(CONFIG | given, data_dir=root)
    try:
        with pytest.raises(StartFailed) as refused:
            node.start()
        assert "Traceback" not in node.log(), node.log()[-5000:]
    finally:
        node.close()
    sentence = str(refused.value)
    assert "\n" not in sentence
    return sentence


def flip(path: Path, position: int, bit: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= bit
    path.write_bytes(content)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a small file system: so many bytes and files."""
    mounted: list[Path] = []

    def mount(name: str = "disk", size: str = "2m", files: int = 1000) -> Path:
        path = tmp_path / name
        path.mkdir()
        options = f"size={size},nr_inodes={files}"
        try:
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, text=True
            )
        except OSError as error:
            pytest.skip(f"nothing can be mounted here: {error}")
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", path], check=False, capture_output=True)


@pytest.fixture(scope="session")
def tools() -> SimpleNamespace:
    return SimpleNamespace(
        Client=Client,
        wait_until=wait_until,
        refusal=refusal,
        flip=flip,
        last_offset=lambda records: max(header.last_offset for _, header in iterate_batches(records)),
        batch_of=batch_of,
        value_of=value_of,
        topic_name=topic_name,
        batches=BATCHES,
        per_segment=PER_SEGMENT,
        config=CONFIG,
    )
