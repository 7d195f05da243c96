from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from barnabas.node.storage.admission import (
    RECORD_ERRORS_MAX,
    Opening,
    RecordsRefused,
    TooMuchAtOnce,
    admit,
    open_batch,
)
from barnabas.node.storage.log_config import LogConfig
from barnabas.wire.batch import Record, assemble, build_batch, decode_records, read_header, validate
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ErrorCode, KafkaError

NOW_MS = 1_700_000_000_000
GOOD = bytes(build_batch([Record(i, NOW_MS, b"k", b"v" * 20) for i in range(3)]))
HEADER = read_header(GOOD)
RECORDS = GOOD[61:]


def refusal(batches: bytes | bytearray, **configs: object) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        admit(batches, "orders-0", LogConfig(**configs), NOW_MS)  # type: ignore[arg-type]
    return refused.value


def patched(at: int, data: bytes) -> bytes:
    return GOOD[:at] + data + GOOD[at + len(data) :]


# Every line is what Apache Kafka 4.3.1 answers to the same bytes.
ANSWERS: dict[str, tuple[bytes, ErrorCode]] = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "a batch and zeros": (GOOD + bytes(40), ErrorCode.CORRUPT_MESSAGE),
    "a truncated batch": (GOOD[:-3], ErrorCode.INVALID_RECORD),
    "a flipped bit": (patched(70, b"\xff"), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (patched(16, b"\0"), ErrorCode.INVALID_RECORD),
    "magic 1": (patched(16, b"\1"), ErrorCode.INVALID_RECORD),
    "magic 3": (patched(16, b"\3"), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (patched(16, b"\xff"), ErrorCode.CORRUPT_MESSAGE),
    "length 5": (patched(8, struct.pack(">i", 5)), ErrorCode.CORRUPT_MESSAGE),
    "length 20": (patched(8, struct.pack(">i", 20)), ErrorCode.CORRUPT_MESSAGE),
    "length -5": (patched(8, struct.pack(">i", -5)), ErrorCode.CORRUPT_MESSAGE),
    "a base offset": (patched(0, struct.pack(">q", 5)), ErrorCode.INVALID_RECORD),
    "a count too small": (assemble(HEADER._replace(records_count=2), RECORDS), ErrorCode.INVALID_RECORD),
    "a count of 0": (assemble(HEADER._replace(records_count=0), RECORDS), ErrorCode.INVALID_RECORD),
    "a count of -1": (assemble(HEADER._replace(records_count=-1), RECORDS), ErrorCode.INVALID_RECORD),
    "a negative range": (assemble(HEADER._replace(last_offset_delta=-3), RECORDS), ErrorCode.INVALID_RECORD),
    "more records than bytes": (
        assemble(HEADER._replace(last_offset_delta=2**31 - 2, records_count=2**31 - 1), RECORDS),
        ErrorCode.INVALID_RECORD,
    ),
    "codec 5": (assemble(HEADER._replace(attributes=5), RECORDS), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a control batch": (assemble(HEADER._replace(attributes=0x20), RECORDS), ErrorCode.INVALID_RECORD),
    "a producer without sequence": (assemble(HEADER._replace(producer_id=5), RECORDS), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_bad_batch_gets_kafka_s_error_code(what: str) -> None:
    batches, code = ANSWERS[what]
    assert refusal(batches).code is code
    assert refusal(bytearray(batches)).message


@pytest.mark.parametrize("tail", [b"", b"garbage", GOOD[:30], GOOD[:-1]])
def test_bytes_behind_the_batch_that_are_no_batch_are_cut_off(tail: bytes) -> None:
    view, header = admit(GOOD + tail, "orders-0", LogConfig(), NOW_MS)
    assert (bytes(view), header) == (GOOD, HEADER)


def test_the_size_of_a_batch_is_limited() -> None:
    assert refusal(GOOD, max_message_bytes=len(GOOD) - 1).code is ErrorCode.MESSAGE_TOO_LARGE
    admit(GOOD, "orders-0", LogConfig(max_message_bytes=len(GOOD)), NOW_MS)


def test_a_compacted_topic_refuses_records_without_key_and_names_them() -> None:
    records = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v"), Record(2, NOW_MS, None, None)]
    for codec in Compression:
        refused = refusal(build_batch(records, compression=codec), cleanup_policy=("compact",))
        text = "Compacted topic cannot accept message without key in topic partition orders-0"
        assert isinstance(refused, RecordsRefused)
        assert (refused.code, refused.record_errors) == (ErrorCode.INVALID_RECORD, [(1, text), (2, text)])
        assert refused.message == (
            "One or more records have been rejected due to 2 record errors in total, and only showing "
            "the first three errors at most: "
            f"[RecordError(batchIndex=1, message='{text}'), RecordError(batchIndex=2, message='{text}')]"
        )
    admit(build_batch(records), "orders-0", LogConfig(), NOW_MS)


def test_timestamps_out_of_bounds_are_refused_and_named() -> None:
    times = [NOW_MS, NOW_MS - 5_000, NOW_MS + 5_000, -1]
    batch = build_batch([Record(i, at, b"k", b"v") for i, at in enumerate(times)])
    refused = refusal(batch, message_timestamp_before_max_ms=1_000, message_timestamp_after_max_ms=1_000)
    assert isinstance(refused, RecordsRefused)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert refused.message == "One or more records have been rejected due to invalid timestamp"
    within = f"The timestamp should be within [{NOW_MS - 1_000}, {NOW_MS + 1_000}]"
    assert refused.record_errors == [
        (1, f"Timestamp {NOW_MS - 5_000} of message with offset 1 is out of range. {within}"),
        (2, f"Timestamp {NOW_MS + 5_000} of message with offset 2 is out of range. {within}"),
    ]
    assert refusal(build_batch([Record(0, NOW_MS + 3_600_001, b"k", b"v")])).code is ErrorCode.INVALID_TIMESTAMP
    admit(build_batch([Record(0, NOW_MS + 3_600_000, b"k", b"v")]), "orders-0", LogConfig(), NOW_MS)
    admit(build_batch([Record(0, 5, b"k", b"v")]), "orders-0", LogConfig(), NOW_MS)


def test_a_producer_may_not_claim_log_append_time() -> None:
    claimed = build_batch([Record(0, NOW_MS, b"k", None)], log_append_time_ms=5)
    refused = refusal(claimed, message_timestamp_type="LogAppendTime")
    assert isinstance(refused, RecordsRefused)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert "Producer should not set timestamp type to LogAppendTime" in refused.record_errors[0][1]
    view, header = admit(claimed, "orders-0", LogConfig(), NOW_MS)
    assert not validate(view).is_log_append_time
    assert header == read_header(view)


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topic_s_compression_is_applied(source: Compression, target: str) -> None:
    records = [Record(i, NOW_MS, b"key", b"value" * 30) for i in range(20)]
    batch = bytes(build_batch(records, compression=source, producer_id=3, producer_epoch=1, base_sequence=4))
    view, header = admit(batch, "orders-0", LogConfig(compression_type=target), NOW_MS)
    assert validate(view).compression is Compression.named(target)
    assert decode_records(view) == records
    assert (header.producer_id, header.base_sequence) == (3, 4)
    if source is Compression.named(target):
        assert bytes(view) == batch


def test_a_recompressed_batch_must_still_fit() -> None:
    packed = build_batch([Record(0, NOW_MS, b"k", bytes(10_000))], compression=Compression.GZIP)
    assert refusal(packed, compression_type="uncompressed", max_message_bytes=5_000).code is ErrorCode.MESSAGE_TOO_LARGE


def test_the_producer_s_bytes_are_kept_as_they_are(batch: Callable[..., bytearray]) -> None:
    for codec in Compression:
        sent = batch(5, compression=codec)
        view, _ = admit(sent, "orders-0", LogConfig(), NOW_MS)
        assert view.obj is sent


NONE, ZSTD = Compression.NONE, Compression.ZSTD
COMPACTED = {"cleanup_policy": ("compact",)}


def many(count: int, codec: Compression, *, value: bytes = b"", key: bytes | None = b"k") -> bytes:
    return bytes(build_batch([Record(i, NOW_MS, key, value) for i in range(count)], compression=codec))


@pytest.mark.parametrize(
    ("batch", "configs"),
    [
        (many(1001, NONE), COMPACTED),
        (many(1001, ZSTD), COMPACTED),
        (many(3, ZSTD, value=bytes(1 << 20)), COMPACTED),
        (many(3, ZSTD, value=bytes(1 << 20)), {"compression_type": "gzip"}),
        (many(1001, ZSTD), {"message_timestamp_before_max_ms": 10_000}),
        (many(1001, ZSTD), {"message_timestamp_after_max_ms": -1}),
    ],
)
def test_a_batch_that_would_hold_up_the_loop_is_opened_elsewhere(batch: bytes, configs: dict[str, object]) -> None:
    config = LogConfig(**configs)  # type: ignore[arg-type]
    with pytest.raises(TooMuchAtOnce):
        admit(batch, "orders-0", config, NOW_MS, Opening.ELSEWHERE)
    if "message_timestamp_after_max_ms" in configs:
        with pytest.raises(RecordsRefused):
            open_batch(memoryview(batch), "orders-0", config, NOW_MS)
    else:
        opened = open_batch(memoryview(batch), "orders-0", config, NOW_MS)
        view, _ = admit(opened, "orders-0", config, NOW_MS, Opening.DONE)
        assert list(decode_records(view)) == list(decode_records(batch))


def test_a_batch_that_nobody_opens_is_never_too_much() -> None:
    admit(many(1001, ZSTD), "orders-0", LogConfig(), NOW_MS, Opening.ELSEWHERE)
    admit(many(1000, ZSTD), "orders-0", LogConfig(**COMPACTED), NOW_MS, Opening.ELSEWHERE)  # type: ignore[arg-type]


def test_the_list_of_bad_records_has_an_end() -> None:
    refused = refusal(many(RECORD_ERRORS_MAX + 10, ZSTD, key=None), **COMPACTED)
    assert isinstance(refused, RecordsRefused)
    assert len(refused.record_errors) == RECORD_ERRORS_MAX
