"""AlterReplicaLogDirs beside Apache Kafka, each with two log directories of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support import reference
from tests.support.reference_exchange import Side

DIRECTORIES = ("first", "second")


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: tmp_path_factory.mktemp(name) for name in ("kafka", "barnabas")}


@pytest.fixture(scope="module")
def sides(roots: dict[str, Path]) -> Iterator[list[tuple[Side, Path]]]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    config = {
        name: {
            "node.id": "1",
            "log.dirs": ",".join(str(root / each) for each in DIRECTORIES),
            "log.retention.ms": "-1",
        }
        for name, root in roots.items()
    }
    kafka = reference.ApacheKafka(directory=roots["kafka"], properties=config["kafka"])
    with (
        kafka,
        Node(config["barnabas"], data_dir=roots["barnabas"] / "first") as node,
        Side("Apache Kafka", kafka) as theirs,
        Side("Barnabas", node) as ours,
    ):
        yield [(theirs, roots["kafka"]), (ours, roots["barnabas"])]


def asked(root: Path, *moves: tuple[str, str, int]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=directory if directory.startswith("/none") else str(root / directory),
                topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])],
            )
            for directory, topic, partition in moves
        ]
    )


def errors(side: Side, request: AlterReplicaLogDirsRequest, version: int = 2) -> list[tuple[str, int, int]]:
    answer: Any = side.ask(request, version)
    return sorted(
        (topic.topic_name, each.partition_index, each.error_code)
        for topic in answer.results
        for each in topic.partitions
    )


def where(side: Side, topic: str, partition: int = 0) -> list[tuple[str, bool]]:
    """The directories of a replica, and whether it is on its way there."""
    topics = [DescribableLogDirTopic(topic=topic, partitions=[partition])]
    answer: Any = side.ask(DescribeLogDirsRequest(topics=topics), 4)
    return [
        (Path(result.log_dir).name, each.is_future_key)
        for result in answer.results
        for found in result.topics
        for each in found.partitions
    ]


def wait_until_moved(side: Side, topic: str, target: str) -> None:
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0])])
    side.wait_until(request, 4, lambda answer: where(side, topic) == [(target, False)])


@pytest.mark.parametrize("version", [1, 2])
def test_what_cannot_be_moved(sides: list[tuple[Side, Path]], version: int) -> None:
    answers = []
    for side, root in sides:
        if version == 1:
            side.create_topic("there", 1)
            side.create_topic("long" * 55, 1)
        [(home, _)] = where(side, "there")
        moves = [("/none", "there", 0), ("first", "unknown", 0), ("first", "there", 7), ("second", "long" * 55, 0)]
        answers.append([errors(side, asked(root, move), version) for move in moves])
        answers[-1].append(errors(side, asked(root, (home, "there", 0)), version))
        answers[-1].append(errors(side, asked(root, ("/none", "there", 0), (home, "there", 0)), version))
        answers[-1].append(errors(side, AlterReplicaLogDirsRequest(dirs=[]), version))
    assert answers[0] == answers[1]
    assert answers[0][0] == [("there", 0, ErrorCode.LOG_DIR_NOT_FOUND)]


def test_a_replica_moves_and_everything_is_still_there(sides: list[tuple[Side, Path]]) -> None:
    batch = build_batch([Record(number, 1_700_000_000_000, b"key", bytes(900)) for number in range(100)])
    data = [PartitionProduceData(index=0, records=bytes(batch))]
    produce = ProduceRequest(
        acks=-1, timeout_ms=9000, topic_data=[TopicProduceData(name="moving", partition_data=data)]
    )
    for side, root in sides:
        side.create_topic("moving", 1, {"segment.bytes": "1048576"})
        for _ in range(30):
            side.ask(produce, 9)
        [(home, _)] = where(side, "moving")
        target = next(name for name in DIRECTORIES if name != home)
        assert errors(side, asked(root, (target, "moving", 0))) == [("moving", 0, 0)]
        wait_until_moved(side, "moving", target)
        part = FetchPartition(partition=0, fetch_offset=2950, partition_max_bytes=1 << 20)
        fetch = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic="moving", partitions=[part])])
        answer: Any = side.ask(fetch, 12)
        found = answer.responses[0].partitions[0]
        assert (found.error_code, found.high_watermark, found.log_start_offset) == (0, 3000, 0)
        assert len(found.records) == len(batch)


def test_a_partition_that_does_not_exist_yet_is_made_where_it_was_wished(sides: list[tuple[Side, Path]]) -> None:
    for side, root in sides:
        for name in ("second", "first", "second"):
            topic = f"wished-{name}-{len(where(side, 'there'))}"
            errors(side, asked(root, (name, topic, 0)))
            if not where(side, topic):
                side.create_topic(topic, 1)
            assert where(side, topic) == [(name, False)]
