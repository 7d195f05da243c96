"""Batches get their topic's compression in threads, and what goes wrong there comes back as an error."""

from __future__ import annotations

import asyncio
import threading

import pytest

from barnabas.node.broker import recompression
from barnabas.node.broker.recompression import Recompression
from barnabas.node.storage.log_config import LogConfig
from barnabas.wire.batch import Record, assemble, build_batch, decode_records, read_header
from barnabas.wire.compression import Buffer, Compression
from barnabas.wire.errors import ErrorCode, KafkaError

NOW_MS = 1_700_000_000_000


def batch(size: int = 50_000, compression: Compression = Compression.NONE) -> bytearray:
    return build_batch([Record(0, NOW_MS, b"key", bytes(size))], compression=compression)


def opened(records: Buffer, config: LogConfig) -> memoryview | KafkaError:
    async def story() -> memoryview | KafkaError:
        work = Recompression()
        try:
            return await work.open(records, "orders-0", config, NOW_MS)
        finally:
            work.close()

    return asyncio.run(story())


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd"])
def test_large_batches_are_packed_in_a_thread(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[threading.Thread] = []
    real = recompression.open_batch

    def noted(*arguments: object) -> memoryview:
        where.append(threading.current_thread())
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(recompression, "open_batch", noted)
    packed = opened(batch(), LogConfig(compression_type=target))
    assert not isinstance(packed, KafkaError)
    assert read_header(packed).compression is Compression.named(target)
    assert decode_records(packed) == decode_records(batch())
    assert threading.main_thread() not in where
    assert len(where) == 1


def test_what_is_too_large_once_unpacked_is_refused() -> None:
    refused = opened(batch(10_000_000, Compression.SNAPPY), LogConfig(compression_type="uncompressed"))
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE


def test_noise_is_an_error_as_with_kafka() -> None:
    header = read_header(batch(10, Compression.GZIP))
    refused = opened(assemble(header, b"no gzip at all" * 1000), LogConfig(compression_type="zstd"))
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_holds_nothing_of_what_was_decompressed() -> None:
    """The frames in its traceback would: a hundred megabytes, which the event loop then gives back to the system."""
    header = read_header(batch(10, Compression.GZIP))
    refused = opened(assemble(header, b"no gzip at all" * 1000), LogConfig())
    assert isinstance(refused, KafkaError)
    assert refused.__traceback__ is None
    assert refused.__cause__ is None
    assert refused.__context__ is None
