"""Control batches are Kafka's, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.metadata.records import UnsupportedMetadata, encode_record
from barnabas.core.metadata.state import Endpoint
from barnabas.core.raft.records import build_control_batch
from barnabas.node.raft.batches import build_batch, read_batches
from barnabas.node.raft.voters import voters_record
from barnabas.wire import batch as wire_batch
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.raft import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord
from barnabas.wire.uuids import Uuid

# The two batches of 00000000000000000000-0000000000.checkpoint as Apache Kafka 4.3.1 formatted it.
KAFKA_HEADER = bytes.fromhex(
    "00000000000000000000009a000000000291b3a306002000000002000001a1e14c43df000001a1e14c43dfffffffffffffffffffffffffff"
    "ff000000032a0000000800000003160000000001a1e14c43d600001e00000208000000050a000000010000820100000408000000066e0000"
    "020000000135dba257ee84411ea3e928deb4f3ffc9020b434f4e54524f4c4c45520a3132372e302e302e3171a5000000000100000000"
)
KAFKA_FOOTER = bytes.fromhex(
    "00000000000000030000003f0000000002ba768566002000000000000001a1e14c43e6000001a1e14c43e6ffffffffffffffffffffffffff"
    "ff000000011a00000008000000040600000000"
)


def test_a_snapshots_first_and_last_batch_are_the_bytes_that_kafka_writes() -> None:
    voters = voters_record(1, Uuid.parse("NduiV-6EQR6j6SjetPP_yQ"), [Endpoint("CONTROLLER", "127.0.0.1", 29093)])
    header = SnapshotHeaderRecord(last_contained_log_timestamp=1794781234134)
    records = [header, KRaftVersionRecord(k_raft_version=1), voters]
    assert build_control_batch(records, base_offset=0, epoch=0, now_ms=1794781234143) == KAFKA_HEADER
    footer = build_control_batch([SnapshotFooterRecord()], base_offset=3, epoch=0, now_ms=1794781234150)
    assert footer == KAFKA_FOOTER
    read = [batch for _, batch in read_batches(KAFKA_HEADER + KAFKA_FOOTER)]
    assert [batch.records for batch in read] == [records, [SnapshotFooterRecord()]]
    assert [(batch.base_offset, batch.last_offset, batch.is_control) for batch in read] == [(0, 2, True), (3, 3, True)]


def test_reading_ends_before_the_first_bytes_that_are_no_batch() -> None:
    one = build_batch([wire.NoOpRecord()], 25, base_offset=5, epoch=2, now_ms=7)
    damaged = bytearray(one)
    damaged[-1] ^= 1
    for tail in (b"", b"\0" * 100, one[:-1], bytes(damaged)):
        [(position, batch)] = read_batches(one + tail)
        assert (position, batch.base_offset, batch.epoch, batch.timestamp_ms) == (len(one), 5, 2, 7)
        assert batch.records == [wire.NoOpRecord()]


def test_a_whole_batch_with_an_unknown_record_is_an_error_and_not_a_torn_tail() -> None:
    unknown = wire_batch.build_batch([wire_batch.Record(0, 0, None, bytes([1, 99, 0]))], base_offset=0)
    with pytest.raises(UnsupportedMetadata, match="type 99 is unknown"):
        list(read_batches(bytes(unknown)))


@pytest.mark.parametrize("key", [None, b"\0\0\0\x63", b"\0"])
def test_an_unknown_control_record_is_an_error(key: bytes | None) -> None:
    unknown = wire_batch.build_batch([wire_batch.Record(0, 0, key, b"\0\0")], base_offset=0, control=True)
    with pytest.raises(UnsupportedMetadata, match="control record is unknown"):
        list(read_batches(bytes(unknown)))


def framed(values: list[bytes], *, key: bytes | None = None, late_ms: int = 0, codec: int = 0) -> bytes:
    records = [wire_batch.Record(5 + index, 1000 + late_ms * index, key, value) for index, value in enumerate(values)]
    return bytes(
        wire_batch.build_batch(records, base_offset=5, leader_epoch=1, compression=wire_batch.Compression(codec))
    )


@pytest.mark.parametrize("size", [0, 1, 20, 57, 58, 59, 60, 63, 64, 200, 8000, 8180, 8192, 20_000])
def test_values_of_all_lengths_are_read_as_field_by_field(size: int) -> None:
    """Varints grow by a byte at 64 and at 8,192."""
    records = [wire.TopicRecord(name="n" * (size + more), topic_id=Uuid(b"t" * 16)) for more in range(3)]
    values = [encode_record(record, 30) for record in records]
    data = framed(values * 50)
    ((end, batch),) = read_batches(data)
    assert end == len(data)
    assert batch.records == records * 50


@pytest.mark.parametrize("unusual", [{"key": b"k"}, {"late_ms": 3}, {"codec": 1}])
def test_records_that_the_quorum_does_not_write_are_read_too(unusual: dict[str, Any]) -> None:
    values = [encode_record(wire.TopicRecord(name="orders", topic_id=Uuid(b"t" * 16)), 30)] * 3
    ((_, batch),) = read_batches(framed(values, **unusual))
    assert batch.records == [wire.TopicRecord(name="orders", topic_id=Uuid(b"t" * 16))] * 3
