"""What is inside a client's batch, compared with what its header says, with Kafka's error codes.

A batch that cannot be decompressed is UNKNOWN_SERVER_ERROR; bytes that are not the records that the header counts are
INVALID_RECORD; a timestamp out of bounds is INVALID_TIMESTAMP; on a compacted topic a record without a key is
INVALID_RECORD. `barnabas.produce.validation=headers` leaves all of it out where the topic's configuration does not ask
for it.

How far timestamps can lie from the batch's base, the length of their deltas bounds. They are read one by one only if
that bound, or the header's greatest timestamp, could matter; then the header gets the true one.

Deviations from Kafka: offset deltas are not compared with the records' order (Kafka compares those of compressed
batches); the header's greatest timestamp is believed where the deltas' bound makes it plausible; what follows behind
a compressed stream is an error with every codec; lengths of compressed records are checked too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import attrgetter

from barnabas.node.storage.log_config import LogConfig
from barnabas.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Outline,
    compiled_outlines,
    outlines,
    read_compiled,
    uncompressed_records,
)
from barnabas.wire.compression import MAX_DECOMPRESSED_BYTES
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.record_layout import PATIENCE, Irregular, check_layout

# To look at so much takes a few milliseconds; a few kilobytes may unpack to millions of records.
RECORDS_AT_ONCE = 1_000
COMPILED_RECORDS_AT_ONCE = 10_000
BYTES_AT_ONCE = 256 * 1024
EXPANSION = 4  # compressed data of more than BYTES_AT_ONCE / EXPANSION is not even tried
RECORD_ERRORS_MAX = 10_000
TIMESTAMP_MIN = NO_TIMESTAMP  # below, timestamps are seldom meant

PATIENCE_BESIDE_READER = 2
READER = "aiokafka.record.default_records"
timestamp_of = attrgetter("timestamp")


class TooMuchAtOnce(Exception):
    """The batch is to be looked at in a thread."""


class RecordsRefused(KafkaError):
    """Some records are not acceptable: their indexes in the batch, and why. Kafka tells clients this message."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def validate(
    view: memoryview, header: BatchHeader, topic_partition: str, config: LogConfig, now_ms: int, *, at_once: bool
) -> int:
    """The greatest timestamp of the batch. With `at_once` `TooMuchAtOnce` is raised if it would hold up the loop.

    Apart from its arguments it needs nothing: it may run in a thread.
    """
    one_by_one = config.opens_records or is_suspicious(header, config, now_ms)
    if not one_by_one and not config.validates_records:
        return header.max_timestamp
    if at_once and header.records_count > (RECORDS_AT_ONCE if one_by_one else COMPILED_RECORDS_AT_ONCE):
        raise TooMuchAtOnce
    records = opened(view, header, at_once) if header.attributes & COMPRESSION_MASK else view[HEADER_BYTES:]
    if not one_by_one:
        latest = latest_timestamp(records, header, at_once=at_once)
        greatest = header.max_timestamp
        if config.log_append_time or greatest <= latest <= now_ms + config.message_timestamp_after_max_ms:
            return greatest  # no timestamp is above `latest`, and the header tells none
        if at_once and header.records_count > RECORDS_AT_ONCE:
            raise TooMuchAtOnce
    few = header.records_count <= RECORDS_AT_ONCE
    found = outlines(records, header) if few else compiled_outlines(records, header)
    try:
        return check_records(found, topic_partition, config, now_ms)
    except KafkaError as error:
        raise as_invalid(error) from error


def is_suspicious(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """A timestamp in the header is out of bounds, so it matters what the records say."""
    if config.log_append_time:
        return False
    latest = now_ms + config.message_timestamp_after_max_ms
    base, greatest = header.base_timestamp, header.max_timestamp
    return greatest > latest or base > latest or base < TIMESTAMP_MIN or greatest < base


def latest_timestamp(records: memoryview, header: BatchHeader, *, at_once: bool) -> int:
    """What no timestamp is above. Raises `KafkaError` unless these are the records that the header counts."""
    try:
        patience = PATIENCE_BESIDE_READER if READER in sys.modules else PATIENCE
        widest = check_layout(bytes(records), header.records_count, patience)
        return header.base_timestamp + (1 << (7 * widest - 1))
    except Irregular:
        if at_once and READER not in sys.modules:  # its import takes a fifth of a second
            raise TooMuchAtOnce from None
    try:
        greatest: int = max(map(timestamp_of, read_compiled(records, header)))
        return greatest
    except Exception as error:  # aiokafka raises several kinds of its own
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Records cannot be read: {error}") from error


def opened(view: memoryview, header: BatchHeader, at_once: bool) -> memoryview:
    """The records, uncompressed."""
    if not header.attributes & COMPRESSION_MASK:
        return view[HEADER_BYTES:]
    if at_once and len(view) > BYTES_AT_ONCE // EXPANSION:
        raise TooMuchAtOnce
    try:
        return uncompressed_records(view, 0, header, BYTES_AT_ONCE if at_once else MAX_DECOMPRESSED_BYTES)
    except KafkaError as error:
        if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error  # as Kafka does
        if at_once:
            raise TooMuchAtOnce from error
        raise


def require_little(view: memoryview, header: BatchHeader) -> None:
    """`TooMuchAtOnce` if a look at every record would hold up the loop."""
    if header.records_count > RECORDS_AT_ONCE:
        raise TooMuchAtOnce
    try:
        opened(view, header, at_once=True)
    except KafkaError:
        pass  # whoever reads them will meet it again


def as_invalid(error: KafkaError) -> KafkaError:
    corrupt = error.code is ErrorCode.CORRUPT_MESSAGE
    return KafkaError(ErrorCode.INVALID_RECORD, error.message) if corrupt else error


def check_records(records: Iterable[Outline], topic_partition: str, config: LogConfig, now_ms: int) -> int:
    """Each record by itself; the greatest timestamp if all are acceptable."""
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    errors: list[tuple[int, str]] = []
    untimely, greatest = False, NO_TIMESTAMP
    for index, record in enumerate(records):
        if len(errors) == RECORD_ERRORS_MAX:
            break
        timestamp = record.timestamp
        if timestamp > greatest:
            greatest = timestamp
        if config.compacted and not record.has_key:
            errors.append(
                (index, f"Compacted topic cannot accept message without key in topic partition {topic_partition}")
            )
        elif config.log_append_time or timestamp == NO_TIMESTAMP or earliest <= timestamp <= latest:
            continue
        else:
            untimely = True
            text = f"Timestamp {timestamp} of message with offset {record.offset} is out of range. "
            errors.append((index, f"{text}The timestamp should be within [{earliest}, {latest}]"))
    if untimely:
        raise untimely_records(errors)
    if errors:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3])
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]",
            errors,
        )
    return greatest


def untimely_records(errors: list[tuple[int, str]]) -> RecordsRefused:
    return RecordsRefused(
        ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", errors
    )
