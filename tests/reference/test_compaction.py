"""Compaction beside Apache Kafka: the same survives, its tools read what we wrote, each goes on after the other."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch, decode_records, iterate_batches
from barnabas.wire.compression import Compression
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support import reference
from tests.support.reference_exchange import Side
from tests.support.waiting import wait_until

NOW_MS = int(time.time() * 1000)
WAIT_S = 30.0
PRODUCER_ID = 4242
CLEANER = {"log.cleaner.backoff.ms": "50"}
CONFIGS = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.001"}


@pytest.fixture(scope="module", autouse=True)
def _reference() -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")


class Batch(NamedTuple):
    """What of a batch a reader may depend on."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    codec: int
    has_horizon: bool
    producer: tuple[int, int, int]
    records: list[Record]


def send(side: Side, seconds: int, *rows: tuple[str, str | None], **options: Any) -> None:
    """One batch, whose records are so many seconds younger than the first ones."""
    records = [
        Record(i, NOW_MS + 1000 * seconds + i, key.encode(), None if value is None else value.encode(), (("h", b"1"),))
        for i, (key, value) in enumerate(rows)
    ]
    data = [PartitionProduceData(index=0, records=bytes(build_batch(records, **options)))]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    answer: Any = side.ask(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0, side.name


def read(side: Side) -> list[Batch]:
    found: list[Batch] = []
    offset = 0
    while True:
        asked = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
        answer: Any = side.ask(FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=asked)]), 11)
        part = answer.responses[0].partitions[0]
        assert part.error_code == 0, side.name
        if not part.records:
            return found
        for position, header in iterate_batches(memoryview(part.records)):
            offset = header.last_offset + 1
            found.append(
                Batch(
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp,
                    header.compression,
                    header.delete_horizon_ms is not None,
                    (header.producer_id, header.producer_epoch, header.base_sequence),
                    decode_records(part.records, position),
                )
            )


def offsets(side: Side) -> list[int]:
    return [record.offset for batch in read(side) for record in batch.records]


def write_history(side: Side) -> None:
    """Every codec, tombstones, a producer whose last batch has nothing left, small segments."""
    side.create_topic("t", configs=CONFIGS)
    send(side, 0, ("a", "1"), ("b", "1"), ("c", "1"), producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=0)
    for number, codec in enumerate(Compression):
        send(
            side, 2 + 2 * number, ("a", f"{codec}"), (f"only-{codec}", "x" * 100), ("b", f"{codec}"), compression=codec
        )
    send(side, 20, ("gone", "1"), ("c", None), ("d", "1"))
    send(side, 22, ("gone", None))
    send(side, 24, ("a", "last"), ("b", "last"), ("d", None))
    send(side, 26, ("active", "1"))


SURVIVORS = [4, 7, 10, 13, 16, 19, 21, 22, 23, 24, 25]


def kafka_on(directory: Path, node: Node) -> reference.ApacheKafka:
    return reference.ApacheKafka(
        directory=directory,
        data_dir=node.data_dir,
        port=node.port,
        controller_port=node.controller_port,
        properties=CLEANER,
    )


def dump(*files: Path) -> str:
    done = reference.run_tool("kafka-dump-log", "--deep-iteration", "--files", ",".join(map(str, files)))
    assert done.returncode == 0, done.stdout + done.stderr
    complaints = re.findall(r".*(?:[mM]ismatch|[eE]rror|out of order|corrupt|Exception).*", done.stdout + done.stderr)
    assert not complaints, complaints
    return done.stdout


def test_what_survives_is_what_survives_in_kafka(tmp_path: Path) -> None:
    with (
        Node(CLEANER) as node,
        reference.ApacheKafka(directory=tmp_path, properties=CLEANER) as kafka,
        Side("Barnabas", node) as ours,
        Side("Apache Kafka", kafka) as theirs,
    ):
        for side in (ours, theirs):
            write_history(side)
        for side in (ours, theirs):
            wait_until(lambda side=side: offsets(side) == SURVIVORS)  # type: ignore[misc]
        assert read(ours) == read(theirs)
        # Both rename the files that they have replaced a little after they have replaced them.
        wait_until(lambda: names(node.data_dir / "t-0") == names(kafka.data_dir / "t-0"))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("0*.log"))


def test_a_compacted_directory_changes_hands(tmp_path: Path) -> None:
    with Node(CLEANER, data_dir=tmp_path / "data") as node:
        with Side("Barnabas", node) as side:
            write_history(side)
            wait_until(lambda: offsets(side) == SURVIVORS)
            before = read(side)
        node.stop()
        partition = node.data_dir / "t-0"
        told = dump(*sorted(path for path in partition.iterdir() if path.suffix in (".log", ".index", ".timeindex")))
        assert "deleteHorizonMs: OptionalLong[" in told
        with kafka_on(tmp_path / "kafka", node) as kafka, Side("Apache Kafka", kafka) as side:
            side.wait_for_leaders("t", 1)
            assert read(side) == before
            send(side, 28, ("b", "kafka"), producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=3)
            send(side, 30, ("active", "2"))
            wait_until(lambda: 23 not in offsets(side))
            compacted = read(side)
        node.start()
        with Side("Barnabas", node) as side:
            assert read(side) == compacted
            send(side, 32, ("active", "3"))
            send(side, 34, ("z", "1"))
            wait_until(lambda: 27 not in offsets(side))
