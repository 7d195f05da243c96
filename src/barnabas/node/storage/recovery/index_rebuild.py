"""The indexes of one segment from its batches. The batches are left as they are, whatever they are: what lies below the
recovery point was synced, and an index that is gone or wrong is no reason to give it up.

To read a large segment takes long, so a child can do it: `python -m barnabas.node.storage.recovery.index_rebuild PID`
with the pid of the node; an order goes in as JSON, the content of two files comes out.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from enum import Enum
from typing import NamedTuple

from barnabas.node.storage.directory.files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_name, overwrite
from barnabas.node.storage.recovery.recovery import Job, Scanner, die_with_parent, scan
from barnabas.node.storage.segment.offset_index import OffsetIndex
from barnabas.node.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from barnabas.node.storage.segment.txn_index import ENTRY, VERSION
from barnabas.wire.errors import KafkaError

ANSWER = struct.Struct(">qqq")  # the sizes of both contents, and the offset up to which was read


class Kind(Enum):
    INDEXES = "offset and time index"
    TRANSACTIONS = "transaction index"


class Order(NamedTuple):
    kind: Kind
    directory: str
    bases: list[int]  # the segments of the log up to this one
    size: int  # of this one
    index_interval_bytes: int
    suffix: str = ""  # behind its files' names

    @property
    def base_offset(self) -> int:
        return self.bases[-1]

    def encode(self) -> bytes:
        return json.dumps([self.kind.name, *self[1:]]).encode()

    @classmethod
    def decode(cls, text: bytes) -> Order:
        kind, *rest = json.loads(text)
        return cls(Kind[kind], *rest)


class Rebuilt(NamedTuple):
    """The files' content: of `.index` and `.timeindex`, or of `.txnindex` and nothing."""

    first: bytes
    second: bytes
    end_offset: int


def rebuild(order: Order) -> Rebuilt:
    return read_indexes(order) if order.kind is Kind.INDEXES else read_transactions(order)


def read_indexes(order: Order) -> Rebuilt:
    base_offset = order.base_offset
    offsets, times = bytearray(), bytearray()
    indexed, next_offset = 0, base_offset
    max_timestamp, max_at, last_timestamp = NO_TIMESTAMP, base_offset, NO_TIMESTAMP
    fd = os.open(log_path(order), os.O_RDONLY | os.O_CLOEXEC)
    try:
        for header, position, _, _ in scan(fd, order.size):
            if header.base_offset < next_offset:
                continue
            next_offset = header.last_offset + 1
            if header.max_timestamp > max_timestamp:
                max_timestamp, max_at = header.max_timestamp, header.last_offset
            if position - indexed > order.index_interval_bytes:
                offsets += OffsetIndex.entry.pack(header.last_offset - base_offset, position)
                if max_timestamp > last_timestamp:
                    times += TimeIndex.entry.pack(max_timestamp, max_at - base_offset)
                    last_timestamp = max_timestamp
                indexed = position
    finally:
        os.close(fd)
    if max_timestamp > last_timestamp:
        times += TimeIndex.entry.pack(max_timestamp, max_at - base_offset)
    return Rebuilt(bytes(offsets), bytes(times), next_offset)


def read_transactions(order: Order) -> Rebuilt:
    """Which transactions were aborted in a segment, from the producers' snapshots and the batches."""
    scanner = Scanner(Job(order.directory, 0, 0, 0, now_ms=0))
    scanner.load_producers(order.bases, len(order.bases) - 1)
    entries, end_offset = bytearray(), order.base_offset
    fd = os.open(log_path(order), os.O_RDONLY | os.O_CLOEXEC)
    try:
        for header, _, view, at in scan(fd, order.size):
            end_offset = max(end_offset, header.last_offset + 1)
            if header.producer_id < 0:
                continue
            try:
                aborted = scanner.producers.update(header, view, at)
            except KafkaError:
                continue  # a damaged batch, which nobody will be given
            if aborted is not None:
                entries += ENTRY.pack(VERSION, *aborted)
    finally:
        os.close(fd)
    return Rebuilt(bytes(entries), b"", end_offset)


def log_path(order: Order) -> str:
    return f"{order.directory}/{offset_name(order.base_offset, LOG_SUFFIX)}{order.suffix}"


def write_indexes(directory: str, base_offset: int, index_interval_bytes: int) -> None:
    """Synced: nobody flushes what lies below the recovery point."""
    size = os.stat(f"{directory}/{offset_name(base_offset, LOG_SUFFIX)}").st_size
    found = read_indexes(Order(Kind.INDEXES, directory, [base_offset], size, index_interval_bytes))
    for suffix, content in ((INDEX_SUFFIX, found.first), (TIME_INDEX_SUFFIX, found.second)):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(f"{directory}/{offset_name(base_offset, suffix)}", flags, 0o644)
        try:
            overwrite(fd, content)
            os.fsync(fd)
        finally:
            os.close(fd)


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    try:
        found = rebuild(Order.decode(sys.stdin.buffer.read()))
    except OSError as error:
        sys.exit(f"An index cannot be written anew: {error}")
    sizes = ANSWER.pack(len(found.first), len(found.second), found.end_offset)
    sys.stdout.buffer.write(b"".join((sizes, found.first, found.second)))


if __name__ == "__main__":
    main()
