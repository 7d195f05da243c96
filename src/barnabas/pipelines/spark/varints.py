"""Where the records of a batch begin, and their varints, for all records at once in numpy.

A record begins where the one before it ends, so beginnings are walked one after the other; but records of one size
lie at equal distances, and such a run is found by comparing their length bytes in one go. A record at p of n bytes
means a record at p+n, whose length bytes, if they are the same, mean one at p+2n: nothing is guessed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

RUN_WORTH_IT = 12
FIRST_STRETCH = 3
LONG_STRETCH = 512


class CorruptRecords(ValueError):
    """A batch whose records do not add up although its checksum is right."""


def record_starts(data: bytes | bytearray | memoryview, view: Bytes, begin: int, end: int, count: int) -> Positions:
    """`count` + 1 positions: of every record's length, and of the end. `view` is `data` as an array."""
    starts = np.empty(count + 1, np.int64)
    starts[0] = position = begin
    found, stretch = 0, FIRST_STRETCH
    while found < count:
        walked = _walk(data, position, min(stretch, count - found))
        starts[found + 1 : found + 1 + len(walked)] = walked
        found += len(walked)
        position = walked[-1]
        if position > end:
            raise CorruptRecords("a batch has fewer records than its header says")
        if found < count and len(walked) >= FIRST_STRETCH and walked[-1] - walked[-2] == walked[-2] - walked[-3]:
            step = walked[-1] - walked[-2]
            run = min(_run(view, position, end, step), count - found)
            if run:
                starts[found + 1 : found + 1 + run] = np.arange(position + step, position + run * step + 1, step)
                found += run
                position += run * step
            stretch = FIRST_STRETCH if run >= RUN_WORTH_IT else LONG_STRETCH
        else:
            stretch = LONG_STRETCH
    return starts


def _walk(data: bytes | bytearray | memoryview, position: int, count: int) -> list[int]:
    """Where the next records end: a record's length is a varint, never negative and mostly of one or two bytes."""
    walked: list[int] = []
    append = walked.append
    for _ in range(count):
        first = data[position]
        if first < 128:
            position += 1 + (first >> 1)
        elif (second := data[position + 1]) < 128:
            position += 2 + ((first & 127) >> 1) + (second << 6)
        else:
            position += _long_step(data, position)
        append(position)
    return walked


def _long_step(data: bytes | bytearray | memoryview, position: int) -> int:
    value = shift = 0
    for at in range(position, position + 5):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return at + 1 - position + (value >> 1)
        shift += 7
    raise CorruptRecords("a record's length is no varint")


def _run(view: Bytes, position: int, end: int, step: int) -> int:
    """How many records from `position` on are of `step` bytes, going by the length bytes of the one before."""
    at = position - step
    same = view[position:end:step] == view[at]
    while view[at] >= 128:
        at += 1
        following = view[at + step : end : step]
        same = same[: len(following)] & (following == view[at])
    return len(same) if same.all() else int(same.argmin())


def read_varints(view: Bytes, at: Positions) -> tuple[Positions, Positions]:
    """The zigzag varints at these positions, and the positions behind them."""
    byte = view.take(at, mode="clip")
    value = (byte & 0x7F).astype(np.int64)
    after = at + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while more.size:
        if shift > 63:
            raise CorruptRecords("a record has a varint that does not end")
        if more.size == byte.size:  # all of them, the common case of lengths above 63
            byte = view.take(after, mode="clip")
            value |= (byte & 0x7F).astype(np.int64) << shift
            after += 1
            more = np.flatnonzero(byte >= 0x80)
        else:
            rest = view.take(after.take(more), mode="clip")
            value[more] |= (rest & 0x7F).astype(np.int64) << shift
            after[more] += 1
            more = more[rest >= 0x80]
        shift += 7
    return (value >> 1) ^ -(value & 1), after


def skip_varints(view: Bytes, at: Positions) -> Positions:
    byte = view.take(at, mode="clip")
    after = at + 1
    more = np.flatnonzero(byte >= 0x80)
    while more.size:
        rest = view.take(after.take(more), mode="clip")
        after[more] += 1
        more = more[rest >= 0x80]
    return after
