"""The headers column: null for a record without headers, as the JVM connector has it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from barnabas.pipelines.spark.schema import HEADERS, arrow_schema
from barnabas.pipelines.spark.varints import Bytes, Positions, read_varints

Header = tuple[str, bytes | None]


def header_column(data: bytes | bytearray | memoryview, view: Bytes, starts: Positions) -> pa.Array:
    """`starts` is where each record's number of headers lies."""
    counts, at = read_varints(view, starts)
    kind = arrow_schema([HEADERS]).field(HEADERS).type
    if not counts.any():
        return pa.nulls(len(starts), kind)
    rows: list[list[dict[str, object]] | None] = [None] * len(starts)
    for index in np.flatnonzero(counts > 0).tolist():
        headers = _headers(data, int(at[index]), int(counts[index]))
        rows[index] = [{"key": key, "value": value} for key, value in headers]
    return pa.array(rows, kind)


def _headers(data: bytes | bytearray | memoryview, at: int, count: int) -> list[Header]:
    found: list[Header] = []
    for _ in range(count):
        key_bytes, at = _varint(data, at)
        key = bytes(data[at : at + key_bytes]).decode("utf-8", "replace")
        value_bytes, at = _varint(data, at + key_bytes)
        value = bytes(data[at : at + value_bytes]) if value_bytes >= 0 else None
        at += max(value_bytes, 0)
        found.append((key, value))
    return found


def _varint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
