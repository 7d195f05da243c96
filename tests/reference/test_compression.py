"""`compression.type` of a topic: what becomes of batches in every codec, beside Apache Kafka."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from barnabas.wire.batch import BatchHeader, Record, assemble, build_batch, decode_records, read_header
from barnabas.wire.compression import Compression, compress
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CODECS = list(Compression)
TARGETS = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
NOW_MS = time.time_ns() // 1_000_000


def records(count: int = 50, size: int = 400) -> list[Record]:
    """Keys, nulls, headers, and timestamps that go back and forth."""
    text = b"the quick brown fox jumps over the lazy dog " * (size // 44 + 1)
    return [
        Record(
            number,
            NOW_MS + (-1) ** number * number,
            b"key-%d" % number if number % 3 else None,
            text[number % 40 : number % 40 + size] if number % 7 else None,
            (("first", b"1"), ("second", None)) if number % 5 == 0 else (),
        )
        for number in range(count)
    ]


def produce(topic: str, batch: bytes | bytearray) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=bytes(batch))]
    return ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def stored(both: Any, topic: str, offset: int = 0) -> list[tuple[BatchHeader, list[Record]]]:
    """The last batch as each side gives it out, without checksum and length, which depend on the library."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 26)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[asked])])
    found = []
    for side in both.sides:
        answer: Any = side.ask(request, 12)
        batch = answer.responses[0].partitions[0].records
        header = read_header(batch)
        assert header.size == len(batch)
        found.append((header._replace(crc=0, batch_length=0), decode_records(batch)))
    return found


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_batch_is_kept_as_its_topic_wants_it(both: Any, source: Compression, target: str) -> None:
    topic = both.topic(compression_type=target)
    listed = records()
    both.same(produce(topic, build_batch(listed, compression=source)), 9)
    found = stored(both, topic)
    assert all(each == found[0] for each in found)
    header, decoded = found[0]
    assert header.compression is (source if target == "producer" else Compression.named(target))
    assert decoded == listed


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("size", [10, 100_000])
def test_batches_of_idempotent_producers_keep_their_sequences(both: Any, target: str, size: int) -> None:
    topic = both.topic(compression_type=target)
    for sequence in (0, 2):
        batch = build_batch(records(2, size), producer_id=4711, producer_epoch=3, base_sequence=sequence)
        both.same(produce(topic, batch), 9)
    both.same(produce(topic, batch), 9, ignoring=("log_append_time_ms",))
    found = stored(both, topic, 2)
    assert all(each == found[0] for each in found)
    assert (found[0][0].producer_id, found[0][0].producer_epoch, found[0][0].base_sequence) == (4711, 3, 2)


@pytest.mark.parametrize("target", ["uncompressed", "zstd"])
def test_the_broker_s_time_goes_with_another_compression(both: Any, target: str) -> None:
    topic = both.topic(compression_type=target, message_timestamp_type="LogAppendTime")
    both.same(produce(topic, build_batch(records(), compression=Compression.GZIP)), 9)
    (kafka, _), *ours = stored(both, topic)
    for header, _ in ours:
        assert (header.attributes, header.base_timestamp) == (kafka.attributes, kafka.base_timestamp)


@pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip", "zstd"])
@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("size", [100, 20_000])
def test_noise_instead_of_compressed_records(both: Any, target: str, codec: Compression, size: int) -> None:
    """Where the codec stays the same we do not look inside, and Kafka does."""
    topic = both.topic(compression_type=target)
    header = read_header(build_batch(records(2), compression=codec))
    batch = assemble(header, random.Random(size).randbytes(size))
    if Compression.named(target if target != "producer" else codec.name) is not codec:
        both.same(produce(topic, batch), 9)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_records_that_are_too_large_without_their_compression(both: Any, codec: Compression) -> None:
    topic = both.topic(compression_type="uncompressed")
    batch = build_batch([Record(0, NOW_MS, b"zeros", bytes(20_000_000))], compression=codec)
    assert len(batch) < 1_000_000
    both.same(produce(topic, batch), 9)


def test_records_that_are_too_large_with_another_compression(both: Any) -> None:
    topic = both.topic(compression_type="snappy", max_message_bytes="30000")
    text = b" ".join(b"%d" % (number * number) for number in range(9_000))
    batch = build_batch([Record(0, NOW_MS, b"key", text)], compression=Compression.ZSTD, level=19)
    assert len(batch) < 30_000 < len(compress(text, Compression.SNAPPY))
    both.same(produce(topic, batch), 9)


def test_old_formats_are_refused_whatever_the_compression(both: Any) -> None:
    for target in ("producer", "gzip"):
        topic = both.topic(compression_type=target)
        for magic in (0, 1):
            batch = bytearray(build_batch(records(2)))
            batch[16] = magic
            both.same(produce(topic, batch), 9)
