"""Kafka's dump tool and ours read the same files, and print the same.

With BARNABAS_GOLDEN=all those of Apache Kafka too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.compression import Compression
from barnabas.wire.records.framing import encode_metadata_record
from barnabas.wire.records.remote_log import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpoch,
    TopicIdPartition,
)
from barnabas.wire.uuids import Uuid
from tests.reference.handed_groups import HandedGroups
from tests.support import reference
from tests.support.reference_exchange import Side

from .clusters import cluster, our_tool
from .many_tools import ManyTools

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}


@pytest.fixture(scope="module")
def kafkas_tools() -> Iterator[ManyTools]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    tools = ManyTools()
    yield tools
    tools.close()


@pytest.mark.parametrize(
    "where", ["our node", *(["Apache Kafka"] if os.environ.get("BARNABAS_GOLDEN") == "all" else [])]
)
def test_every_file_of_a_node_is_dumped_as_kafkas_tool_dumps_it(where: str, kafkas_tools: ManyTools) -> None:
    with cluster(where, {"log.segment.bytes": "1048576", "log.index.interval.bytes": "1"}) as running:
        _fill(running.bootstrap_servers)
        running.stop()
        files = _files(Path(running.data_dir))
        assert {path.suffix for path in files} >= {".log", ".index", ".timeindex", ".checkpoint", ".txnindex"}
        for path in files:
            for options in _options(path):
                arguments = ["--files", str(path), *options]
                theirs = kafkas_tools.run("kafka-dump-log", arguments, None)
                ours = our_tool("kafka-dump-log", arguments, None)
                assert ours[0].splitlines() == theirs[0].splitlines(), arguments
                assert (ours[1].splitlines(), ours[2]) == (theirs[1].splitlines(), theirs[2]), arguments


def test_records_of_the_newer_groups_are_dumped_as_kafkas_tool_dumps_them(kafkas_tools: ManyTools) -> None:
    with Node() as node:
        side = Side("Barnabas", node)
        HandedGroups().live(side)
        side.close()
        node.stop()
        kinds: dict[str, set[int]] = {"__consumer_offsets": set(), "__share_group_state": set()}
        for path in _files(node.data_dir):
            topic = path.parent.name.rpartition("-")[0]
            if path.suffix == ".log" and topic in kinds:
                arguments = ["--files", str(path), DECODERS[topic]]
                dumped = our_tool("kafka-dump-log", arguments, None)[0]
                assert dumped.splitlines() == kafkas_tools.run("kafka-dump-log", arguments, None)[0].splitlines()
                kinds[topic] |= {int(kind) for kind in re.findall(r'key: {"type":"(\d+)"', dumped)}
    consumers, shares, streams = {3, 5, 6, 7, 8}, {10, 11, 12, 13, 14, 15}, {17, 19, 20, 21, 22, 23}
    assert kinds["__consumer_offsets"] >= consumers | shares | streams
    assert kinds["__share_group_state"] == {0, 1}


@pytest.mark.parametrize("name", ["nosuch.log", "nosuch.index", "nosuch.snapshot"])
def test_a_file_that_is_not_there_is_told(name: str) -> None:
    stdout, stderr, code = our_tool("kafka-dump-log", ["--files", name], None)
    assert (stdout, stderr, code) == (f"Dumping {name}\n", f"There is no file {name}.\n", 1)


def test_a_damaged_batch_is_shown_as_such_and_its_records_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    batch = build_batch([Record(0, 1000, None, b"value" * 20)], base_offset=0, compression=Compression.GZIP)
    batch[-20] ^= 0xFF
    path.write_bytes(bytes(batch) + b"torn")
    stdout, stderr, code = our_tool("kafka-dump-log", ["--files", str(path)], None)
    assert "isvalid: false" in stdout
    assert stdout.endswith("Found 4 invalid bytes at the end of 00000000000000000000.log\n")
    assert (stderr, code) == ("", 0)
    _, stderr, code = our_tool("kafka-dump-log", ["--files", str(path), "--print-data-log"], None)
    assert code == 1
    assert stderr.startswith(f"The batch at position 0 of {path} cannot be read: ")
    assert stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["00000000000000000000.index", "00000000000000000000.timeindex"])
def test_an_index_that_is_not_made_of_entries_fails_its_check(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(bytes(25))
    _, stderr, code = our_tool("kafka-dump-log", ["--files", str(path), "--index-sanity-check"], None)
    assert code == 1
    assert stderr.startswith(f"{path} is corrupt: its 25 bytes are not a multiple of ")


def test_records_of_another_kind_than_the_decoder_expects_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(0, 1000, None, b"value")], base_offset=0))
    for decoder in ("--offsets-decoder", "--transaction-log-decoder"):
        _, stderr, code = our_tool("kafka-dump-log", ["--files", str(path), decoder], None)
        assert (stderr.count("\n"), code) == (1, 1)
        assert "has no key" in stderr
    path.write_bytes(build_batch([Record(0, 1000, b"\x00\x02", b"\x00\x03x")], base_offset=0))
    _, stderr, code = our_tool("kafka-dump-log", ["--files", str(path), "--offsets-decoder"], None)
    assert (stderr.count("\n"), code) == (1, 1)


def test_records_of_remote_segments_are_told_as_kafkas_tool_tells_them(tmp_path: Path, kafkas_tools: ManyTools) -> None:
    where = TopicIdPartition(name="orders", id=Uuid(bytes(range(16))), partition=3)
    segment = RemoteLogSegmentId(topic_id_partition=where, id=Uuid(bytes(range(1, 17))))
    epochs = [SegmentLeaderEpoch(leader_epoch=10, offset=70), SegmentLeaderEpoch(leader_epoch=9, offset=5)]
    records = [
        RemoteLogSegmentMetadataRecord(remote_log_segment_id=segment, start_offset=5, end_offset=90, broker_id=1,
                                       max_timestamp_ms=1000, event_timestamp_ms=2000, segment_leader_epochs=epochs,
                                       segment_size_in_bytes=4096, txn_index_empty=True),
        RemoteLogSegmentMetadataUpdateRecord(remote_log_segment_id=segment, broker_id=2, event_timestamp_ms=2001,
                                             custom_metadata=b"abc", remote_log_segment_state=1),
        RemotePartitionDeleteMetadataRecord(topic_id_partition=where, broker_id=3, event_timestamp_ms=2002,
                                            remote_partition_delete_state=2),
        RemoteLogSegmentMetadataSnapshotRecord(segment_id=segment.id, start_offset=5, end_offset=90, broker_id=1,
                                               segment_leader_epochs=epochs, remote_log_segment_state=3),
    ]  # fmt: skip
    values = [encode_metadata_record(record, 0) for record in records]
    path = tmp_path / "00000000000000000000.log"
    batch = build_batch([Record(i, 1000, None, value) for i, value in enumerate(values)], base_offset=0)
    path.write_bytes(batch)
    arguments = ["--files", str(path), "--remote-log-metadata-decoder"]
    ours = our_tool("kafka-dump-log", arguments, None)
    assert "payload: RemotePartitionDeleteMetadata{topicPartition=AAECAwQFBgcICQoLDA0ODw:orders-3, " in ours[0]
    assert ours[0].splitlines() == kafkas_tools.run("kafka-dump-log", arguments, None)[0].splitlines()


def test_what_is_no_record_of_a_remote_segment_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    values = [b"\x01\x09\x00", b"", None]
    path.write_bytes(build_batch([Record(i, 1000, None, value) for i, value in enumerate(values)], base_offset=0))
    stdout, _, code = our_tool("kafka-dump-log", ["--files", str(path), "--remote-log-metadata-decoder"], None)
    assert [f"payload: Error at offset {offset}, skipping. " in stdout for offset in range(3)] == [True] * 3
    assert code == 0


def _options(path: Path) -> list[list[str]]:
    if path.suffix in (".index", ".timeindex"):
        return [[], ["--verify-index-only"], ["--index-sanity-check"]]
    topic = "__cluster_metadata" if path.suffix == ".checkpoint" else path.parent.name.rpartition("-")[0]
    if topic in DECODERS:
        return [[DECODERS[topic]]]
    return [[], ["--print-data-log"], ["--print-data-log", "--skip-record-metadata"], ["--deep-iteration"]]


def _files(data_dir: Path) -> list[Path]:
    """Files that hold something; of topics with many partitions the few that are used."""
    suffixes = (".log", ".index", ".timeindex", ".checkpoint", ".snapshot", ".txnindex")
    found = [path for path in sorted(data_dir.rglob("*")) if path.suffix in suffixes and path.stat().st_size]
    return [path for path in found if path.suffix != ".timeindex" or path.with_suffix(".index").exists()]


def _fill(bootstrap: str) -> None:
    _send(bootstrap, {"compression.type": "none"}, headers=[("h1", b"v1"), ("h2", None)])
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        _send(bootstrap, {"compression.type": codec}, headers=[])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    producer.init_transactions()
    for ending in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("orders", b"in a transaction")
        producer.flush()
        ending()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message: Any = None
    while message is None or message.error():
        message = consumer.poll(10)
    consumer.commit(message, asynchronous=False)
    consumer.close()


def _send(bootstrap: str, config: dict[str, str], headers: list[tuple[str, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "enable.idempotence": True, **config})
    for number in range(3):
        producer.produce("orders", f"value {number} äöü", key=f"key {number}" if number else None, headers=headers)
    producer.produce("orders", None, key="gone")
    producer.flush()
