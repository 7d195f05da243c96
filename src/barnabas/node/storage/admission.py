"""What a client's batch must be before it enters a log, with Kafka's error codes.

The header is checked and the checksum verified; what is inside is `record_validation`'s.
"""

from __future__ import annotations

from enum import Enum

from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.record_validation import (
    RecordsRefused,
    TooMuchAtOnce,
    require_little,
    untimely_records,
    validate,
)
from barnabas.wire.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    FIXED_LENGTH_BYTES,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    SPAN,
    BatchHeader,
    batch_crc,
    decode_records,
    framing_error,
    read_header,
    recompress,
    set_timestamp,
)
from barnabas.wire.compression import MAX_DECOMPRESSED_BYTES, Buffer, Compression
from barnabas.wire.errors import ErrorCode, KafkaError

__all__ = ["Opening", "RecordsRefused", "TooMuchAtOnce", "admit", "checked_batch", "open_batch", "single_batch"]

SMALLEST_RECORD_BYTES = 7  # seven fields of at least one byte each
RECOMPRESSED_AT_ONCE_BYTES = 4 * 1024  # below, the way to a thread and back takes longer than the work


class Opening(Enum):
    """Where the records of a batch are looked at, if they have to be."""

    HERE = "here"
    ELSEWHERE = "elsewhere"  # `TooMuchAtOnce` is raised if it would hold up the loop
    DONE = "done"


def invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def single_batch(batches: Buffer) -> memoryview:
    """The one batch of magic 2 that a Produce request has per partition; bytes that are no whole batch are cut off."""
    view = memoryview(batches)
    if error := framing_error(view):
        raise error
    if len(view) <= MAGIC_OFFSET or SPAN.unpack_from(view)[1] + LOG_OVERHEAD_BYTES > len(view):
        raise invalid("Produce requests must have at least one record batch per partition")
    if view[MAGIC_OFFSET] != MAGIC:
        raise invalid("Produce requests are only allowed to contain record batches with magic version 2")
    size = SPAN.unpack_from(view)[1] + LOG_OVERHEAD_BYTES
    rest = view[size:]
    if error := framing_error(rest):
        raise error
    if len(rest) > MAGIC_OFFSET and SPAN.unpack_from(rest)[1] + LOG_OVERHEAD_BYTES <= len(rest):
        raise invalid("Produce requests are only allowed to contain exactly one record batch per partition")
    return view[:size]


def checked_batch(batches: Buffer, topic_partition: str, config: LogConfig) -> tuple[memoryview, BatchHeader]:
    """A client's one batch and its header, if both are what they must be from outside."""
    view = batches if isinstance(batches, memoryview) else memoryview(batches)
    size = len(view)
    if size < HEADER_BYTES or SPAN.unpack_from(view)[1] + LOG_OVERHEAD_BYTES != size or view[MAGIC_OFFSET] != MAGIC:
        view = single_batch(view)
        size = len(view)
    if size < HEADER_BYTES:
        raise corrupt(topic_partition, "the size is smaller than the header")
    header = read_header(view)
    if header.base_offset != 0:
        raise invalid(
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, "
            f"but it is {header.base_offset}"
        )
    if size > config.max_message_bytes:
        raise too_large(topic_partition, size, config)
    if batch_crc(view, 0, size) != header.crc:
        raise corrupt(topic_partition, f"stored crc = {header.crc}")
    check_header(header, topic_partition)
    return view, header


def is_recompressed(header: BatchHeader, config: LogConfig) -> bool:
    return config.target_compression is not None and config.target_compression != header.attributes & COMPRESSION_MASK


def recompressed(view: Buffer, topic_partition: str, config: LogConfig) -> memoryview:
    """The batch in the topic's compression. Apart from its arguments it needs nothing, and lets other threads run."""
    target = config.target_compression
    assert target is not None
    max_bytes = MAX_DECOMPRESSED_BYTES if target else config.max_message_bytes
    try:
        packed = recompress(view, 0, target, config.compression_level, max_bytes)
    except KafkaError as error:
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            raise
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error  # as Kafka does with noise inside
    if len(packed) > config.max_message_bytes:
        raise too_large(topic_partition, len(packed), config)
    return memoryview(packed)


def admit(
    batches: Buffer, topic_partition: str, config: LogConfig, now_ms: int, opening: Opening = Opening.HERE
) -> tuple[memoryview, BatchHeader]:
    """A client's batch as it will be written, apart from offset and epoch, and its header."""
    view, header = checked_batch(batches, topic_partition, config)
    if opening is not Opening.DONE:
        elsewhere = opening is Opening.ELSEWHERE
        if elsewhere and len(view) >= RECOMPRESSED_AT_ONCE_BYTES and is_recompressed(header, config):
            raise TooMuchAtOnce
        view, header = look_inside(view, header, topic_partition, config, now_ms, at_once=elsewhere)
    if config.log_append_time or header.attributes & LOG_APPEND_TIME_FLAG:
        return with_topic_s_timestamp(view, header, topic_partition, config, now_ms)
    return view, header


def open_batch(view: memoryview, topic_partition: str, config: LogConfig, now_ms: int) -> memoryview:
    """Everything about a sound batch that may take long. Apart from its arguments it needs nothing: for a thread."""
    return look_inside(view, read_header(view), topic_partition, config, now_ms, at_once=False)[0]


def look_inside(
    view: memoryview, header: BatchHeader, topic_partition: str, config: LogConfig, now_ms: int, *, at_once: bool
) -> tuple[memoryview, BatchHeader]:
    """The batch with its true greatest timestamp and in its topic's compression, and its header."""
    max_timestamp = validate(view, header, topic_partition, config, now_ms, at_once=at_once)
    is_untrue = max_timestamp != header.max_timestamp and not config.log_append_time
    if not is_untrue and (config.target_compression is None or not is_recompressed(header, config)):
        return view, header
    if is_untrue:
        view = writable(view)
        log_append_time = bool(header.attributes & LOG_APPEND_TIME_FLAG)
        set_timestamp(view, 0, max_timestamp=max_timestamp, log_append_time=log_append_time)
    if is_recompressed(header, config):
        view = recompressed(view, topic_partition, config)
    return view, read_header(view)


def writable(view: memoryview) -> memoryview:
    return memoryview(bytearray(view)) if view.readonly else view


def check_header(header: BatchHeader, topic_partition: str) -> None:
    count, delta, attributes = header.records_count, header.last_offset_delta, header.attributes
    if delta < 0:
        raise invalid(f"Batch has an invalid offset range: [0, {delta}] in topic partition {topic_partition}")
    if count <= 0:
        raise invalid(f"Invalid reported count for record batch: {count} in topic partition {topic_partition}")
    if count != delta + 1:
        raise invalid(
            f"Inconsistent batch offset range [0, {delta}] and count of records {count} "
            f"in topic partition {topic_partition}"
        )
    if attributes & CONTROL_FLAG:
        raise invalid(f"Clients are not allowed to write control records in topic partition {topic_partition}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise invalid(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id} "
            f"in topic partition {topic_partition}"
        )
    codec = attributes & COMPRESSION_MASK
    if not codec and header.batch_length - FIXED_LENGTH_BYTES < count * SMALLEST_RECORD_BYTES:
        raise invalid(f"{count} records do not fit into the batch in topic partition {topic_partition}")
    if codec > Compression.ZSTD:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {codec}")


def with_topic_s_timestamp(
    view: memoryview, header: BatchHeader, topic_partition: str, config: LogConfig, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """LogAppendTime is the log's to give: a producer that claims it is refused, or unclaimed on a CreateTime topic."""
    if config.log_append_time and header.attributes & LOG_APPEND_TIME_FLAG:
        try:
            require_little(view, header)
        except TooMuchAtOnce:
            raise untimely_records([]) from None
        raise untimely_records(
            [
                (
                    index,
                    f"Invalid timestamp type in message DefaultRecord(offset={record.offset}, "
                    f"timestamp={record.timestamp}, key={size_text(record.key)}, value={size_text(record.value)}). "
                    "Producer should not set timestamp type to LogAppendTime.",
                )
                for index, record in enumerate(decode_records(view))
            ]
        )
    view = writable(view)
    max_timestamp = now_ms if config.log_append_time else header.max_timestamp
    set_timestamp(view, 0, max_timestamp=max_timestamp, log_append_time=config.log_append_time)
    return view, read_header(view)


def size_text(data: bytes | None) -> str:
    return f"{0 if data is None else len(data)} bytes"


def corrupt(topic_partition: str, detail: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt ({detail}) in topic partition {topic_partition}.")


def too_large(topic_partition: str, size: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {topic_partition} is {size} bytes "
        f"which exceeds the maximum configured value of {config.max_message_bytes}.",
    )
