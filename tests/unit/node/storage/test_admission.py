from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable

import pytest

from barnabas.node.storage.admission import Opening, RecordsRefused, TooMuchAtOnce, admit, open_batch
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.record_validation import READER, RECORD_ERRORS_MAX
from barnabas.wire.batch import Record, assemble, build_batch, decode_records, read_header, validate
from barnabas.wire.compression import Compression, compress
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
        (many(10_001, ZSTD), {}),
        (many(3, ZSTD, value=bytes(1 << 20)), {}),
        (many(3, ZSTD, value=random.Random(1).randbytes(1 << 16)), {}),
        (many(100, NONE, value=bytes(100)), {"compression_type": "gzip"}),
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


def test_records_that_look_alike_are_never_too_much() -> None:
    admit(many(1001, ZSTD), "orders-0", LogConfig(), NOW_MS, Opening.ELSEWHERE)
    admit(many(1000, ZSTD), "orders-0", LogConfig(**COMPACTED), NOW_MS, Opening.ELSEWHERE)  # type: ignore[arg-type]


def test_the_compiled_reader_is_loaded_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = bytes(build_batch([Record(i, NOW_MS, b"k", b"v" * (i * 7 % 50)) for i in range(100)]))
    monkeypatch.delitem(sys.modules, READER, raising=False)
    with pytest.raises(TooMuchAtOnce):
        admit(batch, "orders-0", LogConfig(), NOW_MS, Opening.ELSEWHERE)
    open_batch(memoryview(batch), "orders-0", LogConfig(), NOW_MS)
    admit(batch, "orders-0", LogConfig(), NOW_MS, Opening.ELSEWHERE)


def test_the_list_of_bad_records_has_an_end() -> None:
    refused = refusal(many(RECORD_ERRORS_MAX + 10, ZSTD, key=None), **COMPACTED)
    assert isinstance(refused, RecordsRefused)
    assert len(refused.record_errors) == RECORD_ERRORS_MAX


PAIR = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS + 1, b"k", b"v")]


def with_payload(payload: bytes, codec: Compression = NONE, **fields: int) -> bytes:
    header = read_header(build_batch(PAIR))._replace(attributes=codec, **fields)
    return bytes(assemble(header, payload))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_what_cannot_be_decompressed_is_refused_unless_only_headers_are_validated(codec: Compression) -> None:
    packed = bytes(build_batch(PAIR, compression=codec))[61:]
    for payload in (b"\xff" * 30, packed[:-3], packed[: len(packed) // 2]):
        batch = with_payload(payload, codec)
        assert refusal(batch).code is ErrorCode.UNKNOWN_SERVER_ERROR
        admit(batch, "orders-0", LogConfig(validates_records=False), NOW_MS)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("count", [2, 3_000])
def test_records_that_contradict_their_header_are_refused(codec: Compression, count: int) -> None:
    records = [Record(i, NOW_MS, b"k", b"v" * (i % 50)) for i in range(count)]
    payload = bytes(build_batch(records))[61:]
    fields = {"records_count": count, "last_offset_delta": count - 1}
    for bad in (payload[:-1], payload + b"\0", payload[:-1] + b"\2", b"\2" + payload[1:]):
        batch = with_payload(compress(bad, codec), codec, **fields)
        assert refusal(batch).code is ErrorCode.INVALID_RECORD
        with pytest.raises(KafkaError):
            open_batch(memoryview(batch), "orders-0", LogConfig(), NOW_MS)
    admit(with_payload(compress(payload, codec), codec, **fields), "orders-0", LogConfig(), NOW_MS)


@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 2, -(2**63), NOW_MS + 86_400_000])
def test_a_base_timestamp_out_of_bounds_is_refused_whatever_the_header_s_greatest_says(base: int) -> None:
    batch = with_payload(bytes(build_batch(PAIR))[61:], base_timestamp=base, max_timestamp=NOW_MS)
    refused = refusal(batch)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(refused, RecordsRefused)
    assert refused.record_errors[0][1].startswith(f"Timestamp {base} of message with offset 0 is out of range.")


@pytest.mark.parametrize("delta", [2**63 - 1 - NOW_MS, 300 * 86_400_000, 3_600_001])
def test_a_timestamp_delta_out_of_bounds_is_refused(delta: int) -> None:
    records = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS + delta, b"k", b"v")]
    lying = read_header(build_batch(records))._replace(max_timestamp=NOW_MS)
    assert refusal(assemble(lying, bytes(build_batch(records))[61:])).code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("told", [NOW_MS + 3_000_000, 2**62, 0, -7])
def test_a_greatest_timestamp_that_cannot_be_is_replaced_by_the_true_one(told: int) -> None:
    batch = with_payload(bytes(build_batch(PAIR))[61:], max_timestamp=told)
    view, header = admit(batch, "orders-0", LogConfig(), NOW_MS)
    assert header.max_timestamp == NOW_MS + 1
    assert validate(view) == header
