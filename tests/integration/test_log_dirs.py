"""A node with two log directories: where partitions lie, how they move under load, what a full disk takes along."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.errors import ClientError
from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch, decode_records, iterate_batches
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.waiting import wait_until

NAMES = ("a", "b")
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(first: int, count: int = 10, size: int = 900, **options: Any) -> bytearray:
    """Records whose values begin with their numbers."""
    records = [Record(n, now_ms(), b"key", b"%d " % (first + n) + bytes(size)) for n in range(count)]
    return build_batch(records, **options)


class TwoDirectories:
    def __init__(self, root: Path, log_client: Any, **config: Any) -> None:
        self.root = root
        log_dirs = ",".join(str(root / name) for name in NAMES)
        given = {key.replace("_", "."): value for key, value in config.items()}
        self.node = Node({"log.dirs": log_dirs, **given}, data_dir=root / "a").start()
        self.client = log_client(self.node)

    def where(self, topic: str) -> list[tuple[str, int, bool]]:
        answer = self.client.connection.request(DescribeLogDirsRequest(topics=None), 4)
        return [
            (Path(result.log_dir).name, partition.partition_index, partition.is_future_key)
            for result in answer.results
            for found in result.topics
            for partition in found.partitions
            if found.name == topic
        ]

    def errors(self) -> dict[str, int]:
        answer = self.client.connection.request(DescribeLogDirsRequest(topics=None), 4)
        return {Path(result.log_dir).name: result.error_code for result in answer.results}

    def leader(self, topic: str) -> tuple[int, int, list[int]]:
        """Error, leader and offline replicas."""
        [found] = self.client.connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics
        partition = found.partitions[0]
        return partition.error_code, partition.leader_id, partition.offline_replicas

    def move(self, topic: str, name: str, partition: int = 0) -> int:
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(self.root / name), topics=topics)])
        error: int = self.client.connection.request(request, 2).results[0].partitions[0].error_code
        return error

    def move_away(self, topic: str) -> str:
        [(home, _, _)] = self.where(topic)
        target = next(name for name in NAMES if name != home)
        assert self.move(topic, target) == 0
        return target

    def set_rate(self, bytes_per_second: int) -> None:
        change = AlterableConfig(name=RATE, config_operation=0, value=str(bytes_per_second))
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
        [result] = self.client.connection.request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert result.error_code == 0

    def values(self, topic: str) -> list[int]:
        """The numbers of all records, read from the start to the end."""
        found: list[int] = []
        offset, end = self.client.offset(topic, -2), self.client.offset(topic, -1)
        while offset < end:
            answer = self.client.fetch(topic, offset)
            assert answer.error_code == 0
            for position, header in iterate_batches(answer.records):
                listed = decode_records(answer.records, position)
                assert [record.offset for record in listed] == list(range(offset, header.last_offset + 1))
                found += [int(record.value.split()[0]) for record in listed if record.value]
                offset = header.last_offset + 1
        return found

    def fill(self, topic: str, batches: int) -> None:
        for number in range(batches):
            self.client.append(topic, batch(10 * number))


@pytest.fixture
def two(tmp_path: Path, log_client: Any) -> Iterator[TwoDirectories]:
    running = TwoDirectories(tmp_path, log_client)
    yield running
    running.client.connection.close()
    running.node.close()


def test_partitions_are_made_where_there_are_fewest(two: TwoDirectories) -> None:
    two.node.create_topic("spread", partitions=6)
    assert sorted(name for name, _, _ in two.where("spread")) == ["a", "a", "a", "b", "b", "b"]


def test_a_partition_moves_while_it_is_written_and_read(two: TwoDirectories, log_client: Any) -> None:
    two.node.create_topic("busy", config={"segment.bytes": 200_000, "flush.messages": 100})
    two.fill("busy", 300)
    acknowledged, stop = list(range(3000)), threading.Event()

    def write() -> None:
        with log_client(two.node) as client:
            sequence, number = 0, 3000
            while not stop.is_set():
                given = {"producer_id": 77, "producer_epoch": 0, "base_sequence": sequence}
                assert client.append("busy", batch(number, **given)) == number
                acknowledged.extend(range(number, number + 10))
                sequence, number = sequence + 10, number + 10

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(4):
            target = two.move_away("busy")
            wait_until(lambda target=target: two.where("busy") == [(target, 0, False)])
    finally:
        stop.set()
        writer.join()
    assert len(acknowledged) > 3000
    assert two.values("busy") == acknowledged
    assert not list(two.root.glob("*/busy-0.*-future"))
    again = batch(acknowledged[-10], producer_id=77, producer_epoch=0, base_sequence=len(acknowledged) - 3010)
    assert two.client.append("busy", again) == acknowledged[-10], "a duplicate is still known"
    two.node.restart()
    two.client.reconnect()
    assert two.values("busy") == acknowledged


@pytest.mark.parametrize("batches", [1, 400], ids=["in one turn", "in several"])
def test_a_partition_that_starts_within_a_batch_moves(two: TwoDirectories, batches: int) -> None:
    two.node.create_topic("begun")
    two.fill("begun", batches)
    partitions = [DeleteRecordsPartition(partition_index=0, offset=5)]
    two.client.connection.request(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="begun", partitions=partitions)], timeout_ms=5_000), 2
    )
    before = bytes(two.client.fetch("begun", 5).records)
    target = two.move_away("begun")
    wait_until(lambda: two.where("begun") == [(target, 0, False)])
    assert [two.client.offset("begun", each) for each in (-2, -1)] == [5, 10 * batches]
    assert bytes(two.client.fetch("begun", 5).records) == before


@pytest.mark.parametrize("clean", [True, False])
def test_a_move_goes_on_after_a_restart(two: TwoDirectories, clean: bool) -> None:
    two.node.create_topic("slow", config={"segment.bytes": 200_000})
    two.fill("slow", 150)
    two.set_rate(200_000)
    target = two.move_away("slow")
    wait_until(lambda: list(two.root.glob(f"{target}/slow-0.*-future/*.log")))
    wait_until(lambda: sum(path.stat().st_size for path in two.root.glob(f"{target}/slow-0.*-future/*.log")) > 200_000)
    assert (target, 0, True) in two.where("slow")
    if not clean:
        two.node.kill()
    two.node.restart()
    two.client.reconnect()
    assert (target, 0, True) in two.where("slow")
    two.set_rate(1 << 40)
    wait_until(lambda: two.where("slow") == [(target, 0, False)])
    assert two.values("slow") == list(range(1500))
    two.node.restart()
    two.client.reconnect()
    assert two.where("slow") == [(target, 0, False)]
    assert two.values("slow") == list(range(1500))


def test_a_move_is_called_back(two: TwoDirectories) -> None:
    two.node.create_topic("undecided", config={"file.delete.delay.ms": 0})
    two.fill("undecided", 100)
    two.set_rate(100_000)
    [(home, _, _)] = two.where("undecided")
    two.move_away("undecided")
    wait_until(lambda: list(two.root.glob("*/undecided-0.*-future")))
    assert two.move("undecided", home) == 0
    assert two.where("undecided") == [(home, 0, False)]
    wait_until(lambda: not list(two.root.glob("*/undecided-0.*")))
    two.node.restart()
    two.client.reconnect()
    assert two.values("undecided") == list(range(1000))


def test_a_topic_is_deleted_while_it_moves(two: TwoDirectories) -> None:
    two.node.create_topic("doomed", config={"file.delete.delay.ms": 0})
    two.fill("doomed", 100)
    two.set_rate(100_000)
    two.move_away("doomed")
    wait_until(lambda: list(two.root.glob("*/doomed-0.*-future")))
    two.client.connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=9000), 6)
    two.set_rate(1 << 40)
    wait_until(lambda: not list(two.root.glob("*/doomed-0*")))
    two.node.create_topic("doomed")
    assert two.client.append("doomed", batch(0)) == 0


def test_a_move_that_lacked_only_its_last_renaming_is_complete_after_a_start(two: TwoDirectories) -> None:
    two.node.create_topic("renamed")
    two.fill("renamed", 20)
    target = two.move_away("renamed")
    deadline = time.monotonic() + 20
    while two.where("renamed") != [(target, 0, False)] and time.monotonic() < deadline:
        time.sleep(0.02)
    two.node.kill()
    directory = two.root / target
    (directory / "renamed-0").rename(directory / f"renamed-0.{'0123456789abcdef' * 2}-future")
    two.node.start()
    two.client.reconnect()
    assert two.where("renamed") == [(target, 0, False)]
    assert two.values("renamed") == list(range(200))


# Full disks: small file systems in memory


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a file system of four megabytes at a name below the test's directory."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root mounts a small file system")
    mounted: list[Path] = []

    def mount(name: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", path], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", path], check=False, capture_output=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)


def write_until_refused(client: Any, topic: str, limit: int = 10_000) -> tuple[int, int]:
    """How many batches were acknowledged, and the error that ended it."""
    for number in range(limit):
        result = client.produce(topic, batch(10 * number))
        if result.error_code:
            return number, result.error_code
    raise AssertionError("the disk is not full")


def test_a_full_disk_takes_its_partitions_offline_and_no_others(
    tmp_path: Path, log_client: Any, small_disks: Callable[[str], Path]
) -> None:
    disk = small_disks("b")
    two = TwoDirectories(tmp_path, log_client)
    try:
        assert two.move("small", "b") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        two.node.create_topic("small", config={"segment.bytes": 1_000_000})
        two.node.create_topic("large")
        assert (two.where("small"), two.where("large")) == ([("b", 0, False)], [("a", 0, False)])
        acknowledged, error = write_until_refused(two.client, "small")
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        assert acknowledged > 300
        assert two.errors() == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
        assert two.client.produce("small", batch(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert two.client.fetch("small", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert two.client.append("large", batch(0)) == 0
        assert two.move("large", "b") == ErrorCode.KAFKA_STORAGE_ERROR
        wait_until(lambda: two.leader("small") == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1]))
        assert two.leader("large") == (0, 1, [])
        assert two.client.produce("small", batch(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        two.node.create_topic("new", partitions=2)
        assert {name for name, _, _ in two.where("new")} == {"a"}
        two.node.kill()
        enlarge(disk)
        two.node.start()
        two.client.reconnect()
        assert two.errors() == {"a": 0, "b": 0}
        assert two.leader("small") == (0, 1, [])
        assert two.values("small") == list(range(10 * acknowledged))
        assert two.values("large") == list(range(10))
        assert two.client.append("small", batch(0)) == 10 * acknowledged
    finally:
        two.client.connection.close()
        two.node.close()


def test_a_node_whose_only_disk_is_full_stops_and_has_everything_afterwards(
    log_client: Any, small_disks: Callable[[str], Path]
) -> None:
    disk = small_disks("only")
    node = Node(data_dir=disk / "data").start()
    try:
        node.create_topic("orders", config={"segment.bytes": 500_000})
        with log_client(node) as client:
            acknowledged = 0
            try:
                while client.produce("orders", batch(10 * acknowledged)).error_code == 0:
                    acknowledged += 1
            except ClientError:
                pass  # the node has gone before it could answer
        wait_until(lambda: not node.running)
        node.kill()
        assert acknowledged > 300
        enlarge(disk)
        node.start()
        reader = TwoDirectories.__new__(TwoDirectories)
        with log_client(node) as reader.client:
            assert reader.values("orders") == list(range(10 * acknowledged))
            assert reader.client.append("orders", batch(0)) == 10 * acknowledged
    finally:
        node.close()


def test_a_move_to_a_disk_that_is_too_small_leaves_the_replica_where_it_is(
    tmp_path: Path, log_client: Any, small_disks: Callable[[str], Path]
) -> None:
    small_disks("b")
    two = TwoDirectories(tmp_path, log_client)
    try:
        two.move("large", "a")
        two.node.create_topic("large", config={"segment.bytes": 1_000_000})
        assert two.where("large") == [("a", 0, False)]
        two.fill("large", 600)
        assert two.move("large", "b") == 0
        wait_until(lambda: two.errors() == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR})
        assert two.where("large") == [("a", 0, False)]
        assert two.values("large") == list(range(6000))
        assert two.client.append("large", batch(6000)) == 6000
    finally:
        two.client.connection.close()
        two.node.close()


@pytest.mark.parametrize("what", ["checkpoint", "flush"])
def test_a_disk_that_is_full_when_nobody_writes_loses_nothing(
    tmp_path: Path, log_client: Any, small_disks: Callable[[str], Path], what: str
) -> None:
    """Somebody else fills it; the next checkpoint, or the next leader-epoch file, has no room."""
    disk = small_disks("b")
    interval_ms = 20 if what == "checkpoint" else 3_600_000
    two = TwoDirectories(tmp_path, log_client, log_flush_offset_checkpoint_interval_ms=interval_ms)
    try:
        two.move("small", "b")
        two.node.create_topic("small", config={"flush.messages": 1_000_000 if what == "checkpoint" else 1})
        two.fill("small", 20)
        with open(disk / "filler", "wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(4096))
        if what == "flush":
            results = [two.client.produce("small", batch(200 + 10 * number)).error_code for number in range(3)]
            assert results[-1] == ErrorCode.KAFKA_STORAGE_ERROR
        wait_until(lambda: two.errors() == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR})
        two.node.kill()
        (disk / "filler").unlink()
        two.node.start()
        two.client.reconnect()
        assert two.values("small")[:200] == list(range(200))
        two.client.append("small", batch(0))
    finally:
        two.client.connection.close()
        two.node.close()
