"""Whether bytes are the records that a batch's header promises, without making records of them.

Records of one producer mostly look alike: their lengths, and those of their keys, values and headers, are the same for
many records in a row. So the first of a run is read field by field, and for the others of the run every byte that says
how long something is is compared column by column: a few operations for hundreds of records. Data without such runs is
left to aiokafka's compiled reader, which takes a tenth of a microsecond per record.

Batches of one producer mostly look alike, too. The shape of a batch that comes a second time, by the count of records
and the bytes of all of them, is kept: every byte of it that says how long something is, and where it stands. Another
batch with these very bytes in these places is right for the same reasons, so nothing in it need be read.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from barnabas.wire.errors import ErrorCode, KafkaError

PATIENCE = 16  # so many runs are read before anybody wonders whether they are long enough
RECORDS_PER_RUN = 32  # below, the compiled reader is faster
VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10
# By it a byte becomes 1 if it continues a varint.
CONTINUES = bytes(byte >> 7 for byte in range(256))
CONTINUING = bytes(range(0x80, 0x100))
NULL_LENGTH = 1  # -1, of a key or value that is null
SHAPES_MAX = 256
SHAPE_RUNS_MAX = 8


class Irregular(Exception):
    """The records have no runs that are worth it."""


class Layout(NamedTuple):
    """One record, as positions behind its first byte."""

    span: int  # bytes, with its length
    time_at: int  # the delta of its timestamp; before it are its length and a byte of attributes
    offset_at: int
    key_at: int
    lengths: list[int]  # every byte that says how long key, value and headers are, and how many of these


class Shape(NamedTuple):
    """What all batches of one shape have in common, column by column of a run of records."""

    lengths: Callable[[bytes], tuple[bytes, ...]]
    expected: tuple[bytes, ...]
    ends: Callable[[bytes], tuple[bytes, ...]]  # the last bytes of the deltas of timestamps and offsets
    beginnings: list[slice]  # the bytes before them
    widest: int  # bytes of a timestamp's delta

    def is_that_of(self, records: bytes) -> bool:
        if self.lengths(records) != self.expected or not b"".join(self.ends(records)).isascii():
            return False
        for each in self.beginnings:  # noqa: SIM110 (a generator costs as much as the look itself)
            if records[each].translate(None, CONTINUING):
                return False
        return True


class Shapes:
    """Those seen lately, by the count of records and their bytes: None of a batch that came once. For any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Shape | None] = {}

    def get(self, count: int, size: int) -> Shape | None:
        return self._known.get((count, size))

    def seen(self, records: bytes, count: int, runs: list[tuple[int, int, Layout]], widest: int) -> None:
        if len(runs) > SHAPE_RUNS_MAX:
            return
        key = (count, len(records))
        if key in self._known:
            self._known[key] = shape_of(records, runs, widest)
            return
        if len(self._known) >= SHAPES_MAX:
            self._known = {}
        self._known[key] = None


def shape_of(records: bytes, runs: list[tuple[int, int, Layout]], widest: int) -> Shape:
    """`runs` are where each begins, its records, and the layout of these."""
    columns: list[slice] = []
    ends: list[slice] = []
    beginnings: list[slice] = []
    for at, alike, (span, time_at, offset_at, key_at, lengths) in runs:
        end = at + alike * span
        columns += (slice(at + position, end, span) for position in (*range(time_at - 1), *lengths))
        for position in range(time_at, key_at):
            is_last = position + 1 in (offset_at, key_at)
            (ends if is_last else beginnings).append(slice(at + position, end, span))
    found = itemgetter(*columns)  # of several: a record has at least four lengths and two deltas
    return Shape(found, found(records), itemgetter(*ends), beginnings, widest)


_shapes = Shapes()


def contradiction(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"The records contradict the header of their batch: {detail}")


def check_layout(records: bytes, count: int, patience: int = PATIENCE) -> int:
    """The bytes of the longest timestamp delta. Raises `KafkaError` if these are not `count` records, and `Irregular`
    if there are more than `patience` runs and they are short."""
    if count == 1:
        return check_only_record(records)
    shape = _shapes.get(count, len(records))
    if shape is not None and shape.is_that_of(records):
        return shape.widest
    at, left, end = 0, count, len(records)
    runs: list[tuple[int, int, Layout]] = []
    widest = 0
    while left:
        if len(runs) == patience + (count - left) // RECORDS_PER_RUN:
            raise Irregular
        layout = read_layout(records, at)
        widest = max(widest, layout.offset_at - layout.time_at)
        alike = 1 if left == 1 else count_alike(records, at, layout, min(left, (end - at) // layout.span))
        runs.append((at, alike, layout))
        at += alike * layout.span
        left -= alike
    if at != end:
        raise contradiction(f"{end - at} bytes follow the last record")
    _shapes.seen(records, count, runs, widest)
    return widest


def check_only_record(records: bytes) -> int:
    """As `check_layout`, for the one record of a client that waits for its answer."""
    try:
        length, at = read_varint(records, 0)
        if length != len(records) - at:
            raise contradiction(f"a record of {length} bytes with {len(records) - at} left")
        time_at = at + 1
        offset_at = time_at + 1 if records[time_at] < 0x80 else behind_varint(records, time_at, VARLONG_BYTES_MAX)
        at = offset_at + 1 if records[offset_at] < 0x80 else behind_varint(records, offset_at, VARINT_BYTES_MAX)
        if records[at] == NULL_LENGTH:
            at += 1
        else:
            length, at = read_varint(records, at)
            if length > 0:
                at += length
        length, at = read_varint(records, at)
        if length > 0:
            at += length
        if records[at] == 0 and at + 1 == len(records):  # no headers
            return offset_at - time_at
    except IndexError:
        raise contradiction("a record is cut short") from None
    layout = read_layout(records, 0)
    return layout.offset_at - layout.time_at


def count_alike(records: bytes, at: int, layout: Layout, candidates: int) -> int:
    """How many records from `at` on have the layout of the first one."""
    span, time_at, _, key_at, lengths = layout
    if candidates < 2 or records[at] != records[at + span]:
        return 1
    for position in (*range(time_at - 1), *lengths):
        begin = at + position
        column = records[begin : begin + candidates * span : span]
        first = column[:1]
        if column != first * candidates:
            candidates -= len(column.lstrip(first))
    for position in range(time_at, key_at):
        begin = at + position
        column = records[begin : begin + candidates * span : span].translate(CONTINUES)
        first = column[:1]
        if column != first * candidates:
            candidates -= len(column.lstrip(first))
    return candidates


def read_layout(records: bytes, start: int) -> Layout:
    """One record, field by field."""
    try:
        length, at = read_varint(records, start)
        end = at + length
        if length < 0 or end > len(records):
            raise contradiction(f"a record of {length} bytes with {len(records) - at} left")
        time_at = at + 1
        offset_at = behind_varint(records, time_at, VARLONG_BYTES_MAX)
        key_at = behind_varint(records, offset_at, VARINT_BYTES_MAX)
        lengths: list[int] = []
        at = key_at
        for _ in range(2):
            at = skip(records, at, end, lengths)
        headers, behind = read_varint(records, at)
        lengths += range(at, behind)
        at = behind
        if headers:
            at = skip_headers(records, at, end, headers, lengths)
    except IndexError:
        raise contradiction("a record is cut short") from None
    if at != end:
        raise contradiction(f"a record ends {end - at} bytes early")
    positions = [each - start for each in lengths]
    return Layout(end - start, time_at - start, offset_at - start, key_at - start, positions)


def skip(records: bytes, at: int, end: int, lengths: list[int]) -> int:
    """The position behind a field and its length, whose place is added to `lengths`."""
    length, behind = read_varint(records, at)
    lengths.append(at)
    if behind - at > 1:
        lengths += range(at + 1, behind)
    if length <= 0:  # nothing, or null
        return behind
    if behind + length > end:
        raise contradiction(f"a field of {length} bytes with {end - behind} left")
    return behind + length


def skip_headers(records: bytes, at: int, end: int, count: int, lengths: list[int]) -> int:
    if count < 0 or count > end - at:
        raise contradiction(f"{count} headers in {end - at} bytes")
    for _ in range(count):
        if records[at] & 1 and read_varint(records, at)[0] < 0:
            raise contradiction("a header without a key")
        at = skip(records, at, end, lengths)
        at = skip(records, at, end, lengths)
    return at


def behind_varint(records: bytes, at: int, bytes_max: int) -> int:
    last = at + bytes_max
    while records[at] > 0x7F:
        at += 1
        if at == last:
            raise contradiction(f"a varint of more than {bytes_max} bytes")
    return at + 1


def read_varint(records: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the position behind it; IndexError where the bytes end."""
    byte = records[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift, last = byte & 0x7F, 7, at + VARINT_BYTES_MAX
    while True:
        at += 1
        if at == last:
            raise contradiction(f"a varint of more than {VARINT_BYTES_MAX} bytes")
        byte = records[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
