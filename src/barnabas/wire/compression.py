"""The codecs of record batches, byte-compatible with the Java client, with output that is bounded when it comes back.

Snappy travels in xerial's framing and LZ4 as a frame of independent blocks, because the Java client reads nothing else.
Decompression never trusts a declared size: the output grows up to a limit. The members of a gzip stream and the tiny
blocks of a snappy stream are limited too: each costs a turn of Python, and a megabyte could hold hundreds of thousands.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam

from barnabas.wire.errors import ErrorCode, KafkaError

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
SNAPPY_EXPANSION_MAX = 64  # the longest copy, which takes at least two bytes
# Version 1, independent blocks of at most 64 KiB, no checksums but that of the header, as the Java client writes it.
LZ4_HEADER = bytes.fromhex("04224d18604082")
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_END = bytes(4)
LZ4_UNCOMPRESSED = 0x80000000
FIRST_GUESS_BYTES = 64 * 1024
FIRST_GUESS_TIMES = 8  # a guess that is too small costs a second run, one that is too large next to nothing
MAPPED_FROM_BYTES = 4 * 1024 * 1024
# Nobody writes more than one; what is left of the stream is copied for each.
GZIP_MEMBERS_MAX = 100
# So many blocks may be of any size, more have to have this size on average. Java's have 32 KiB.
SNAPPY_SMALL_BLOCKS_MAX = 1_000
SNAPPY_BLOCK_BYTES_MIN = 1024


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Compression:
        """`none` is a producer's word, `uncompressed` a topic's."""
        return cls.NONE if name == "uncompressed" else cls[name.upper()]


DEFAULT_LEVELS = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}
ZLIB_LEVEL = 6  # what -1 stands for
LZ4_FAST = 0


def compress(data: Buffer, codec: Compression, level: int | None = None) -> bytes:
    if level is None:
        level = DEFAULT_LEVELS.get(codec, 0)
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=ZLIB_LEVEL if level < 0 else level))
    if codec is Compression.SNAPPY:
        return compress_xerial(data)
    if codec is Compression.LZ4:
        return compress_lz4(data, level)
    return bytes(cramjam.zstd.compress(data, level=level))


def compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def compress_lz4(data: Buffer, level: int) -> bytes:
    """Block by block: the library's frames of several blocks are either linked or made without letting others run.

    Level 9, which is Kafka's default, means the fast compressor to Kafka, and any other the thorough one.
    """
    if level == DEFAULT_LEVELS[Compression.LZ4]:
        level = LZ4_FAST
    view = memoryview(data)
    parts: list[bytes | memoryview] = [LZ4_HEADER]
    for start in range(0, len(view), LZ4_BLOCK_BYTES):
        block = view[start : start + LZ4_BLOCK_BYTES]
        frame = memoryview(cramjam.lz4.compress(block, level=level))
        (size,) = struct.unpack_from("<I", frame, len(LZ4_HEADER))
        at = len(LZ4_HEADER) + 4
        packed = frame[at : at + (size & ~LZ4_UNCOMPRESSED)]
        parts += (struct.pack("<I", size), packed)
    parts.append(LZ4_END)
    return b"".join(parts)


def decompress(data: Buffer, codec: Compression, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes | memoryview:
    """The records of a batch; CORRUPT_MESSAGE if they cannot be unpacked, MESSAGE_TOO_LARGE above `max_bytes`."""
    try:
        if codec is Compression.NONE:
            return memoryview(data)
        if codec is Compression.GZIP:
            return decompress_gzip(data, max_bytes)
        if codec is Compression.SNAPPY:
            return decompress_snappy(data, max_bytes)
        if codec is Compression.LZ4:
            return decompress_growing(cramjam.lz4.decompress_into, data, max_bytes)
        return decompress_growing(cramjam.zstd.decompress_into, data, max_bytes)
    except (zlib.error, struct.error, cramjam.DecompressionError) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Records compressed with {codec.name.lower()}: {error}") from error


def too_large(max_bytes: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"Decompressed records exceed {max_bytes} bytes")


def decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    rest: Buffer = data
    while rest:
        if len(parts) == GZIP_MEMBERS_MAX:
            raise zlib.error(f"the stream has more than {GZIP_MEMBERS_MAX} members")
        member = zlib.decompressobj(wbits=31)
        part = member.decompress(rest, max_bytes - total + 1)
        total += len(part)
        if total > max_bytes:
            raise too_large(max_bytes)
        if not member.eof:
            raise zlib.error("the stream ends early")
        parts.append(part)
        rest = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != XERIAL_MAGIC:
        return decompress_snappy_block(view, max_bytes)
    parts = []
    position, left = len(XERIAL_HEADER), max_bytes
    while position < len(view):
        (length,) = struct.unpack_from(">i", view, position)
        position += 4
        if length < 0 or length > len(view) - position:
            raise struct.error(f"a block of {length} bytes with {len(view) - position} left")
        parts.append(decompress_snappy_block(view[position : position + length], left))
        position += length
        left -= len(parts[-1])
        if len(parts) > SNAPPY_SMALL_BLOCKS_MAX and max_bytes - left < SNAPPY_BLOCK_BYTES_MIN * len(parts):
            raise struct.error(f"more than {SNAPPY_SMALL_BLOCKS_MAX} small blocks")
    return b"".join(parts)


def decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > SNAPPY_EXPANSION_MAX * len(block):
        raise struct.error(f"{len(block)} bytes cannot become {size}")
    if size > max_bytes:
        raise too_large(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _room(size: int) -> memoryview:
    """A bytearray is filled with zeros while no other thread runs, which takes long if it is large; a map is not."""
    return memoryview(mmap.mmap(-1, size) if size >= MAPPED_FROM_BYTES else bytearray(size))


def decompress_growing(into: Callable[[Buffer, memoryview], int], data: Buffer, max_bytes: int) -> memoryview:
    size = min(max(FIRST_GUESS_TIMES * len(data), FIRST_GUESS_BYTES), max_bytes)
    while True:
        output = _room(size)
        try:
            return output[: into(data, output)]
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise
            if size >= max_bytes:
                raise too_large(max_bytes) from error
        size = min(4 * size, max_bytes)
