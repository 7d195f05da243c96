"""Avro's records of one schema, read column by column: a field of all records at a time, by numpy.

Records lie one behind the other in a buffer. `at` has the place in each of them that is read next; a field moves it on.
Arrays and maps are not read this way, because their items have no fixed number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.client.schemas.avro.model import AvroType, Enum, Fixed, Record, Union

FIXED_SIZES = {"float": ("<f4", 4), "double": ("<f8", 8)}
VARINT_BYTES = 10


class NotReadable(Exception):
    """One of the records is not of the schema; which one is found out row by row."""


def can_read(schema: AvroType, above: tuple[AvroType, ...] = ()) -> bool:
    if "logicalType" in schema.properties or any(schema is each for each in above):
        return False
    if isinstance(schema, Record):
        return all(can_read(each.type, (*above, schema)) for each in schema.fields)
    if isinstance(schema, Union):
        others = [each for each in schema.branches if each.kind != "null"]
        return len(schema.branches) == 2 and len(others) == 1 and can_read(others[0], above)
    return schema.kind not in ("array", "map", "null")


def read_records(schema: Record, bodies: list[bytes]) -> pa.Array:
    """Raises NotReadable."""
    sizes = np.fromiter(map(len, bodies), np.int64, len(bodies))
    ends = np.cumsum(sizes)
    # What runs over the end of the last record finds zeros, and is found out at the end.
    reader = Columns(np.frombuffer(b"".join(bodies) + bytes(VARINT_BYTES), np.uint8))
    at = ends - sizes
    found = reader.read(schema, at, ends)
    if not np.array_equal(reader.at, ends):
        raise NotReadable
    return found


class Columns:
    def __init__(self, data: Any) -> None:
        self._data = data
        self.at: Any = None  # behind what was read last

    def read(self, schema: AvroType, at: Any, ends: Any) -> pa.Array:
        self.at = at
        if isinstance(schema, Record):
            columns = [self.read(each.type, self.at, ends) for each in schema.fields]
            return pa.StructArray.from_arrays(columns, names=[each.name for each in schema.fields])
        if isinstance(schema, Union):
            return self._nullable(schema, ends)
        kind = schema.kind
        if kind in FIXED_SIZES:
            form, size = FIXED_SIZES[kind]
            return pa.array(self._taken(size, ends).view(form).ravel())
        if kind == "boolean":
            return pa.array(self._taken(1, ends).ravel() != 0)
        if isinstance(schema, Fixed):
            raw = pa.py_buffer(self._taken(schema.size, ends).tobytes())
            fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(schema.size), len(at), [None, raw])
            return fixed.cast(pa.binary())
        numbers = self._varints(ends)
        if isinstance(schema, Enum):
            return self._symbols(schema, numbers)
        if kind in ("string", "bytes"):
            return self._blobs(numbers, ends, pa.string() if kind == "string" else pa.binary())
        if kind == "int" and len(numbers) and (numbers.min() < -(1 << 31) or numbers.max() >= 1 << 31):
            raise NotReadable
        return pa.array(numbers.astype(np.int32) if kind == "int" else numbers)

    def _nullable(self, schema: Union, ends: Any) -> pa.Array:
        branches = self._varints(ends)
        other = next(index for index, each in enumerate(schema.branches) if each.kind != "null")
        if np.any((branches != 0) & (branches != 1)):
            raise NotReadable
        rows = np.flatnonzero(branches == other)
        after = self.at
        values = self.read(schema.branches[other], after[rows], ends[rows])
        after[rows] = self.at
        self.at = after
        if len(rows) == len(branches):
            return values
        places = np.zeros(len(branches), np.int64)
        places[rows] = np.arange(len(rows))
        return values.take(pa.array(places, mask=branches != other))

    def _varints(self, ends: Any) -> Any:
        at, data = self.at, self._data
        if not len(at):
            return np.zeros(0, np.int64)
        if np.any(at >= ends):
            raise NotReadable
        first = data[at].astype(np.uint64)
        value, at = first & np.uint64(0x7F), at + 1
        going = np.flatnonzero(first & np.uint64(0x80))
        for turn in range(1, VARINT_BYTES):
            if not len(going):
                break
            if np.any(at[going] >= ends[going]):
                raise NotReadable
            byte = data[at[going]].astype(np.uint64)
            value[going] |= (byte & np.uint64(0x7F)) << np.uint64(7 * turn)
            at[going] += 1
            going = going[(byte & np.uint64(0x80)) != 0]
        if len(going):
            raise NotReadable
        self.at = at
        return ((value >> np.uint64(1)) ^ (~(value & np.uint64(1)) + np.uint64(1))).view(np.int64)

    def _taken(self, size: int, ends: Any) -> Any:
        at = self.at
        if np.any(at + size > ends):
            raise NotReadable
        self.at = at + size
        return self._data[at[:, None] + np.arange(size)]

    def _symbols(self, schema: Enum, numbers: Any) -> pa.Array:
        if np.any((numbers < 0) | (numbers >= len(schema.symbols))):
            raise NotReadable
        return pa.array(schema.symbols).take(pa.array(numbers))

    def _blobs(self, sizes: Any, ends: Any, kind: pa.DataType) -> pa.Array:
        at = self.at
        if np.any(sizes < 0) or np.any(sizes > ends - at):
            raise NotReadable
        self.at = at + sizes
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        if offsets[-1] >= 1 << 31:
            raise NotReadable
        places = np.repeat(at - offsets[:-1], sizes) + np.arange(offsets[-1])
        raw = pa.py_buffer(self._data[places].tobytes())
        blobs = pa.BinaryArray.from_buffers(
            pa.binary(), len(sizes), [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), raw]
        )
        try:
            return blobs.cast(kind)  # strings are checked
        except pa.ArrowInvalid:
            raise NotReadable from None
