"""Records out of raw batches: checksums, all codecs, and for readers of committed records without what was aborted.

A fetch answer names the aborted transactions that reach into it, each by producer id and first offset. Walking the
batches in order, a producer is under an abort from that offset until its ABORT marker; its transactional batches in
between are nobody's business. Control batches never are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.errors import UnreadableAnswer
from barnabas.wire.batch import (
    CONTROL_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    batch_crc,
    compiled_records,
    only_record,
)
from barnabas.wire.errors import KafkaError
from barnabas.wire.schema import Buffer

if TYPE_CHECKING:
    from barnabas.client.fetcher import Fetched

ABORT_MARKER = 0
CREATE_TIME, LOG_APPEND_TIME = 0, 1
Headers = list[tuple[str, bytes | None]]


class ConsumerRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int  # 0: set by who wrote it, 1: by the broker
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int = -1


class RecordBatch(NamedTuple):
    position: int
    header: BatchHeader


def iterate_batches(records: Buffer, name: str, *, check_crcs: bool = True) -> Iterator[RecordBatch]:
    """Whole batches; the last may have been cut by the limit of bytes and is left for the next fetch."""
    position, end = 0, len(records)
    while end - position >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(records, position))
        if header.magic != MAGIC:
            raise UnreadableAnswer(f"{name} holds records of the old format {header.magic}, which is not read here.")
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if size < HEADER_BYTES:
            raise UnreadableAnswer(f"{name} holds a batch at offset {header.base_offset} that is too short to be one.")
        if size > end - position:
            return
        if check_crcs and batch_crc(records, position, size) != header.crc:
            raise UnreadableAnswer(
                f"The batch at offset {header.base_offset} of {name} is corrupt: its checksum is wrong."
            )
        yield RecordBatch(position, header)
        position += size


def visible_batches(fetched: Fetched, *, check_crcs: bool = True) -> Iterator[RecordBatch]:
    """Batches with records for a reader: no markers, and nothing aborted where the fetch was of committed records."""
    coming = sorted(fetched.aborted, key=lambda one: one[1], reverse=True)
    aborted: set[int] = set()
    for batch in iterate_batches(fetched.records, fetched.name, check_crcs=check_crcs):
        header = batch.header
        while coming and coming[-1][1] <= header.last_offset:
            aborted.add(coming.pop()[0])
        if header.attributes & CONTROL_FLAG:
            if aborted and marker_type(fetched.records, batch) == ABORT_MARKER:
                aborted.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL_FLAG and header.producer_id in aborted):
            yield batch


def marker_type(records: Buffer, batch: RecordBatch) -> int:
    key, _ = only_record(bytes(records[batch.position : batch.position + batch.header.size]), 0, batch.header.size)
    return int(struct.unpack_from(">h", key, 2)[0]) if key is not None and len(key) >= 4 else -1


def decode_batch(fetched: Fetched, batch: RecordBatch) -> Iterable[Any]:
    """Records as the compiled reader gives them: offset, timestamp, key, value, headers. It is lazy, and may raise."""
    return compiled_records(fetched.records, batch.position)


def iterate_records(fetched: Fetched, *, check_crcs: bool = True) -> Iterator[ConsumerRecord]:
    """From the offset that was asked for: batches begin before it as often as not."""
    topic, partition, first = fetched.topic, fetched.partition, fetched.fetch_offset
    new = tuple.__new__
    for batch in visible_batches(fetched, check_crcs=check_crcs):
        header = batch.header
        kind = LOG_APPEND_TIME if header.attributes & LOG_APPEND_TIME_FLAG else CREATE_TIME
        epoch = header.leader_epoch
        with DamageNaming(fetched, batch):
            for record in decode_batch(fetched, batch):
                offset = record.offset
                if offset >= first:
                    timestamp = record.timestamp
                    yield new(
                        ConsumerRecord,
                        (topic, partition, offset, timestamp, kind, record.key, record.value, record.headers, epoch),
                    )


def count(fetched: Fetched, *, check_crcs: bool = True) -> tuple[int, int]:
    """How many records, and bytes of keys and values, there are from the offset that was asked for."""
    records = size = 0
    first = fetched.fetch_offset
    for batch in visible_batches(fetched, check_crcs=check_crcs):
        with DamageNaming(fetched, batch):
            decoded = decode_batch(fetched, batch)
            if batch.header.base_offset < first:
                decoded = [record for record in decoded if record.offset >= first]
            for record in decoded:
                records += 1
                if key := record.key:
                    size += len(key)
                if value := record.value:
                    size += len(value)
    return records, size


class DamageNaming:
    """Whatever the reader stumbles over becomes one kind of error that says where."""

    def __init__(self, fetched: Fetched, batch: RecordBatch) -> None:
        self._where = f"The batch at offset {batch.header.base_offset} of {fetched.name}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, UnreadableAnswer):
            why = error.message if isinstance(error, KafkaError) else error
            raise UnreadableAnswer(f"{self._where} cannot be read: {why}.") from error
