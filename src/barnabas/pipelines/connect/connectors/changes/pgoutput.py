"""PostgreSQL's `pgoutput` messages, version 1 of the protocol: bytes in, messages out. No I/O."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

EPOCH_US = 946_684_800_000_000  # of 2000-01-01, where PostgreSQL's time begins
BEGIN = struct.Struct(">qqi")
COMMIT = struct.Struct(">bqqq")
COLUMN = struct.Struct(">ii")
UNSENT = object()  # a large value that did not change: the database does not send it
Row = list[object]  # str, None or UNSENT


class Begin(NamedTuple):
    final_lsn: int
    micros: int
    xid: int


class Commit(NamedTuple):
    commit_lsn: int
    end_lsn: int
    micros: int


class RelationColumn(NamedTuple):
    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    name: str
    identity: str  # d: primary key, n: nothing, f: the whole row, i: an index
    columns: tuple[RelationColumn, ...]


class Change(NamedTuple):
    """`kind` is I, U or D; `old_is_key`: the old row holds the key only."""

    kind: str
    relation: int
    old: Row | None
    new: Row | None
    old_is_key: bool


class Truncate(NamedTuple):
    relations: tuple[int, ...]


class Message(NamedTuple):
    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Parsed = Begin | Commit | Relation | Change | Truncate | Message | None


def parse(data: bytes) -> Parsed:
    """None for what nobody needs: types and origins."""
    kind = data[0]
    if kind in b"IUD":
        return _change(data, chr(kind))
    if kind == 66:
        final_lsn, micros, xid = BEGIN.unpack_from(data, 1)
        return Begin(final_lsn, micros + EPOCH_US, xid & 0xFFFFFFFF)
    if kind == 67:
        _, commit_lsn, end_lsn, micros = COMMIT.unpack_from(data, 1)
        return Commit(commit_lsn, end_lsn, micros + EPOCH_US)
    if kind == 82:
        return _relation(data)
    if kind == 84:
        (count,) = struct.unpack_from(">i", data, 1)
        return Truncate(struct.unpack_from(f">{count}I", data, 6))
    if kind == 77:
        flags, lsn = struct.unpack_from(">bq", data, 1)
        prefix, at = _text(data, 10)
        (length,) = struct.unpack_from(">i", data, at)
        return Message(bool(flags & 1), lsn, prefix, data[at + 4 : at + 4 + length])
    return None


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _relation(data: bytes) -> Relation:
    (oid,) = struct.unpack_from(">I", data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    identity = chr(data[at])
    (count,) = struct.unpack_from(">h", data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_oid, modifier = COLUMN.unpack_from(data, at)
        at += 8
        columns.append(RelationColumn(column, type_oid & 0xFFFFFFFF, modifier, bool(flags & 1)))
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _row(data: bytes, at: int) -> tuple[Row, int]:
    count = data[at] << 8 | data[at + 1]
    at += 2
    row: Row = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 116:
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            row.append(data[at + 4 : end].decode())
            at = end
        else:
            row.append(None if kind == 110 else UNSENT)
    return row, at


def _change(data: bytes, kind: str) -> Change:
    relation = int.from_bytes(data[1:5], "big")
    old: Row | None = None
    new: Row | None = None
    old_is_key = False
    at = 5
    while at < len(data):
        part = data[at]
        row, at = _row(data, at + 1)
        if part == 78:
            new = row
        else:
            old, old_is_key = row, part == 75
    return Change(kind, relation, old, new, old_is_key)
