"""Avro's records of one schema, read column by column: a field of all records at a time, by numpy.

Records lie in one buffer. `at` has the place in each of them that is read next; a field moves it on.
Of arrays and maps the first items of all records are read, then the second ones, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.client.schemas.avro.model import Array, AvroType, Enum, Fixed, Map, Record, Union
from barnabas.pipelines.spark.registry.arrow_types import scalar_of_avro

FIXED_SIZES = {"float": ("<f4", 4), "double": ("<f8", 8)}
VARINT_BYTES = 10
DECIMAL_BYTES = 16
# What Python's dates can say: rows that are read one by one have no others.
DAYS = -719_162, 2_932_896
MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
# Items beyond this many in one record are read by columns only while so many records have them.
LONG_ITEMS = 64
LONG_ITEMS_RECORDS = 16


class NotReadable(Exception):
    """One of the records is not of the schema; which one is found out row by row."""


def can_read(schema: AvroType, above: tuple[AvroType, ...] = ()) -> bool:
    if any(schema is each for each in above):
        return False
    inside = (*above, schema)
    if isinstance(schema, Record):
        return all(can_read(each.type, inside) for each in schema.fields)
    if isinstance(schema, Union):
        others = [each for each in schema.branches if each.kind != "null"]
        return len(schema.branches) == 2 and len(others) == 1 and can_read(others[0], above)
    if isinstance(schema, Array):
        return takes_bytes(schema.items) and can_read(schema.items, inside)
    if isinstance(schema, Map):
        return can_read(schema.values, inside)
    if schema.properties.get("logicalType") == "decimal" and schema.kind in ("bytes", "fixed"):
        return bool(pa.types.is_decimal(scalar_of_avro(schema)))
    return schema.kind != "null"


def takes_bytes(schema: AvroType) -> bool:
    """Items of no bytes could be told in any number by a few bytes."""
    if isinstance(schema, Record):
        return any(takes_bytes(each.type) for each in schema.fields)
    return schema.kind != "null" and not (isinstance(schema, Fixed) and schema.size == 0)


def read_records(schema: Record, data: Any, starts: Any, ends: Any) -> pa.Array:
    """The records of `data` that lie from `starts` up to `ends`. Raises NotReadable."""
    reader = Columns(data)
    found = reader.read(schema, starts, ends)
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
            if not columns:
                return pa.array([{}] * len(at), pa.struct([]))
            return pa.StructArray.from_arrays(columns, names=[each.name for each in schema.fields])
        if isinstance(schema, Union):
            return self._nullable(schema, ends)
        if isinstance(schema, Array):
            offsets, values = self._items(lambda at, ends: self.read(schema.items, at, ends), ends)
            return pa.ListArray.from_arrays(offsets, values)
        if isinstance(schema, Map):
            return self._map(schema, ends)
        if isinstance(schema, Enum):
            return self._symbols(schema, self._varints(ends))
        return self._scalar(schema, ends)

    def _scalar(self, schema: AvroType, ends: Any) -> pa.Array:
        kind, column = schema.kind, scalar_of_avro(schema)
        if kind in FIXED_SIZES:
            form, size = FIXED_SIZES[kind]
            return pa.array(self._taken(size, ends).view(form).ravel())
        if kind == "boolean":
            return pa.array(self._taken(1, ends).ravel() != 0)
        if pa.types.is_decimal(column):
            return self._decimals(schema, column, ends)
        if isinstance(schema, Fixed):
            count = len(self.at)
            raw = pa.py_buffer(self._taken(schema.size, ends).tobytes())
            fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(schema.size), count, [None, raw])
            return fixed.cast(pa.binary())
        numbers = self._varints(ends)
        if kind in ("string", "bytes"):
            return self._blobs(numbers, ends, pa.string() if kind == "string" else pa.binary())
        if kind == "int":
            require(numbers, -(1 << 31), (1 << 31) - 1)
            if pa.types.is_date(column):
                require(numbers, *DAYS)
            return pa.array(numbers.astype(np.int32)).cast(column)
        if pa.types.is_timestamp(column):
            unit = 1_000 if str(schema.properties["logicalType"]).endswith("millis") else 1
            require(numbers, -(-MICROS[0] // unit), MICROS[1] // unit)
            return pa.array(numbers * unit).cast(column)
        return pa.array(numbers)

    def _map(self, schema: Map, ends: Any) -> pa.Array:
        def entries(at: Any, ends: Any) -> pa.Array:
            self.at = at
            keys = self._blobs(self._varints(ends), ends, pa.string())
            return pa.StructArray.from_arrays([keys, self.read(schema.values, self.at, ends)], names=["key", "value"])

        offsets, found = self._items(entries, ends)
        keys, values = found.field(0), found.field(1)
        codes = keys.dictionary_encode()
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets.to_numpy()))
        pairs = rows * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
        if len(np.unique(pairs)) != len(pairs):
            raise NotReadable  # a key twice in one map: of these the last counts
        return pa.MapArray.from_arrays(offsets, keys, values)

    def _items(self, read: Callable[[Any, Any], pa.Array], ends: Any) -> tuple[pa.Array, pa.Array]:
        """The offsets and the items of arrays: the first items of all records, then the second ones, and so on.

        Items come in blocks. A block has its number of items in front, as a negative number if its size in bytes
        follows; one of no items is the last.
        """
        at = self.at.copy()
        left = np.zeros(len(at), np.int64)  # of each record's block
        counts = np.zeros(len(at), np.int64)
        going = np.arange(len(at))
        parts: list[pa.Array] = []
        owners = []
        while True:
            begin = going[left[going] == 0]
            left[begin] = self._block(at, begin, ends)
            going = going[left[going] > 0]
            if not len(going) and parts:
                break
            if len(parts) > LONG_ITEMS and len(going) < LONG_ITEMS_RECORDS:
                raise NotReadable  # a few long arrays are read faster one by one
            parts.append(read(at[going], ends[going]))  # the first time of no records, too: this gives the type
            at[going] = self.at
            owners.append(going)
            counts[going] += 1
            left[going] -= 1
            if not len(going):
                break
        self.at = at
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if offsets[-1] >= 1 << 31:
            raise NotReadable
        order = np.argsort(np.concatenate(owners), kind="stable")
        return pa.array(offsets.astype(np.int32)), pa.concat_arrays(parts).take(pa.array(order))

    def _block(self, at: Any, rows: Any, ends: Any) -> Any:
        """How many items the next block of these records has; `at` moves behind the number."""
        self.at = at[rows]
        numbers = self._varints(ends[rows])
        at[rows] = self.at
        sized = np.flatnonzero(numbers < 0)
        if len(sized):
            self.at = at[rows[sized]]
            self._varints(ends[rows[sized]])
            at[rows[sized]] = self.at
            numbers[sized] = -numbers[sized]
        if np.any(numbers < 0):
            raise NotReadable
        return numbers

    def _decimals(self, schema: AvroType, column: pa.DataType, ends: Any) -> pa.Array:
        """Big-endian numbers of any size to 16 bytes in little-endian order."""
        if isinstance(schema, Fixed):
            sizes = np.full(len(self.at), schema.size, np.int64)
        else:
            sizes = self._varints(ends)
        require(sizes, 1, DECIMAL_BYTES)
        at = self.at
        if np.any(sizes > ends - at):
            raise NotReadable
        self.at = at + sizes
        last = at + sizes - 1
        out = np.empty((len(at), DECIMAL_BYTES), np.uint8)
        out[:] = np.where(self._data[at] & 0x80, 0xFF, 0)[:, None]
        for place in range(DECIMAL_BYTES):
            rows = np.flatnonzero(sizes > place)
            if not len(rows):
                break
            out[rows, place] = self._data[last[rows] - place]
        found = pa.Array.from_buffers(column, len(at), [None, pa.py_buffer(out.tobytes())])
        try:
            found.validate(full=True)  # digits beyond the precision
        except pa.ArrowInvalid:
            raise NotReadable from None
        return found

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


def require(numbers: Any, least: int, most: int) -> None:
    if len(numbers) and (numbers.min() < least or numbers.max() > most):
        raise NotReadable
