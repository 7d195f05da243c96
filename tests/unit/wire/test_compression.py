"""Streams of very many tiny parts: each part costs time that its few bytes do not pay for."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest

from barnabas.wire.compression import (
    GZIP_MEMBERS_MAX,
    SNAPPY_SMALL_BLOCKS_MAX,
    XERIAL_HEADER,
    Compression,
    decompress,
)
from barnabas.wire.errors import ErrorCode, KafkaError


def snappy_blocks(block: bytes, count: int) -> bytes:
    packed = bytes(cramjam.snappy.compress_raw(block))
    return XERIAL_HEADER + (struct.pack(">i", len(packed)) + packed) * count


def test_gzip_has_few_members() -> None:
    member = gzip.compress(b"abc")
    assert decompress(member * GZIP_MEMBERS_MAX, Compression.GZIP) == b"abc" * GZIP_MEMBERS_MAX
    with pytest.raises(KafkaError, match="more than 100 members") as refused:
        decompress(member * 50_000, Compression.GZIP)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_snappy_has_few_small_blocks() -> None:
    few = snappy_blocks(b"abc", SNAPPY_SMALL_BLOCKS_MAX)
    assert decompress(few, Compression.SNAPPY) == b"abc" * SNAPPY_SMALL_BLOCKS_MAX
    with pytest.raises(KafkaError, match="more than 1000 small blocks") as refused:
        decompress(snappy_blocks(b"", 200_000), Compression.SNAPPY)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_snappy_has_many_blocks_of_a_common_size() -> None:
    block = bytes(range(256)) * 8
    assert decompress(snappy_blocks(block, 5_000), Compression.SNAPPY) == block * 5_000
