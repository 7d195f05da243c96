"""The files beside a log, as kafka-dump-log prints and checks them: indexes, aborted transactions, producers."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from barnabas.cli.errors import ToolFailed
from barnabas.wire.batch import Record, decode_records, iterate_batches
from barnabas.wire.errors import KafkaError

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
ABORTED_ENTRY = struct.Struct(">hqqqq")
NO_TIMESTAMP = -1
Pairs = dict[str, list[tuple[int, int]]]


@dataclass(slots=True)
class Findings:
    """What does not fit, told after everything else; by file, in the order Kafka's tool tells it."""

    index_mismatches: Pairs = field(default_factory=dict)
    timestamp_mismatches: Pairs = field(default_factory=dict)
    out_of_order: Pairs = field(default_factory=dict)
    not_found: Pairs = field(default_factory=dict)
    gaps: Pairs = field(default_factory=dict)

    def tell(self) -> None:
        for path, pairs in self.index_mismatches.items():
            _say(f"Mismatches in :{path}", (f"  Index offset: {a}, log offset: {b}" for a, b in reversed(pairs)))
        for path, pairs in self.timestamp_mismatches.items():
            _say(
                f"Found timestamp mismatch in :{path}",
                (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs),
            )
        for path, pairs in self.out_of_order.items():
            _say(
                f"Found out of order timestamp in :{path}",
                (f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs),
            )
        for path, pairs in self.not_found.items():
            _say(
                f"The following indexed offsets are not found in :{path}",
                (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs),
            )
        for path, pairs in self.gaps.items():
            _say(f"Non-consecutive offsets in {path}", (f"  {a} is followed by {b}" for a, b in reversed(pairs)))


def _say(title: str, lines: Iterator[str]) -> None:
    print(title, *lines, sep="\n", file=sys.stderr)


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ToolFailed(f"{path} cannot be read: {error.strerror}.") from None


def mapped(path: str) -> memoryview:
    """A log as it lies in its file, which may be large."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ToolFailed(f"{path} cannot be read: {error.strerror}.") from None


def base_offset(path: str) -> int:
    name = path.rpartition("/")[2].partition(".")[0]
    if not name.isdecimal():
        raise ToolFailed(f'For input string: "{name}"')
    return int(name)


def _sibling(path: str, suffix: str) -> str:
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{name.partition('.')[0]}{suffix}"


def _entries(path: str, entry: struct.Struct) -> list[tuple[int, int]]:
    content = read(path)
    whole = len(content) // entry.size * entry.size
    return [(first, second) for first, second in entry.iter_unpack(content[:whole])]


def _check_sanity(path: str, base: int, entry: struct.Struct, last_offset: int | None) -> None:
    size = len(read(path))
    if size % entry.size:
        raise ToolFailed(f"{path} is corrupt: its {size} bytes are not a multiple of {entry.size}.")
    if last_offset is not None and last_offset < base:
        raise ToolFailed(f"{path} is corrupt: its last offset {last_offset} lies before its first, {base}.")


def dump_offset_index(path: str, *, sanity_only: bool, verify_only: bool, findings: Findings) -> None:
    base = base_offset(path)
    entries = [(base + delta, position) for delta, position in _entries(path, OFFSET_ENTRY)]
    if not entries:
        print(f"{path} is empty.")
        return
    if sanity_only:
        _check_sanity(path, base, OFFSET_ENTRY, entries[-1][0])
        print(f"{path} passed sanity check.")
        return
    log = mapped(_sibling(path, ".log"))
    for at, (offset, position) in enumerate(entries):
        if offset == base and at:
            return
        found = next((header.last_offset for _, header in iterate_batches(log, position)), -1)
        if found != offset:
            findings.index_mismatches.setdefault(path, []).append((offset, found))
        if not verify_only:
            print(f"offset: {offset} position: {position}")


def dump_time_index(path: str, *, sanity_only: bool, verify_only: bool, findings: Findings) -> None:
    base = base_offset(path)
    entries = [(timestamp, base + delta) for timestamp, delta in _entries(path, TIME_ENTRY)]
    if sanity_only:
        _check_sanity(path, base, TIME_ENTRY, entries[-1][1] if entries else None)
        if entries and entries[-1][0] < entries[0][0]:
            raise ToolFailed(f"{path} is corrupt: its last timestamp lies before its first.")
        print(f"{path} passed sanity check.")
        return
    log = mapped(_sibling(path, ".log"))
    positions = [(base + delta, position) for delta, position in _entries(_sibling(path, ".index"), OFFSET_ENTRY)]
    previous = NO_TIMESTAMP
    for at, (timestamp, offset) in enumerate(entries):
        if offset == base and at:
            return
        _check_time_entry(path, log, _position(positions, offset), timestamp, offset, previous, findings)
        if not verify_only:
            print(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp


def _position(positions: list[tuple[int, int]], offset: int) -> int:
    at = bisect_right(positions, offset, key=lambda entry: entry[0])
    return positions[at - 1][1] if at else 0


def _check_time_entry(
    path: str, log: memoryview, position: int, timestamp: int, offset: int, previous: int, findings: Findings
) -> None:
    found = next(((at, header) for at, header in iterate_batches(log, position) if header.last_offset >= offset), None)
    if found is None or found[1].last_offset != offset:
        findings.not_found.setdefault(path, []).append((offset, found[1].last_offset if found else -1))
        return
    greatest = max((record.timestamp for record in records_of(path, log, found[0])), default=NO_TIMESTAMP)
    if greatest != timestamp:
        findings.timestamp_mismatches.setdefault(path, []).append((timestamp, greatest))
    if previous >= timestamp:
        findings.out_of_order.setdefault(path, []).append((timestamp, previous))


def records_of(path: str, log: memoryview, position: int) -> list[Record]:
    try:
        return decode_records(log, position)
    except KafkaError as error:
        raise ToolFailed(f"The batch at position {position} of {path} cannot be read: {error.message}") from None


def dump_aborted(path: str) -> None:
    content = read(path)
    whole = len(content) // ABORTED_ENTRY.size * ABORTED_ENTRY.size
    for version, producer_id, first, last, stable in ABORTED_ENTRY.iter_unpack(content[:whole]):
        print(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )


def dump_producers(path: str) -> None:
    from barnabas.wire.codec import DecodeError
    from barnabas.wire.records.storage import ProducerSnapshot

    content = read(path)
    try:
        (version,) = struct.unpack_from(">h", content)
        snapshot, _ = ProducerSnapshot.decode_from(content, 2, version)
    except (DecodeError, struct.error) as error:
        print(f"{path} is not a snapshot of producers: {error}.", file=sys.stderr)
        return
    for entry in snapshot.producer_entries:
        first = "" if entry.current_txn_first_offset < 0 else entry.current_txn_first_offset
        told = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {f'OptionalLong[{first}]' if first != '' else 'OptionalLong.empty'} "
            f"lastTimestamp: {entry.timestamp} "
        )
        if entry.last_sequence >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) % 2**31
            told += (
                f"firstSequence: {first_sequence} lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} "
                f"offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        print(told)
