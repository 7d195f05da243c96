"""What a partition remembers of its producers: the last five batches of each, and open transactions.

A producer id is in one of these states: unknown (its first batch is taken whatever its sequence), in an epoch with
batches (the next one continues the sequence, one of the last five is a duplicate, anything else is out of order), in
a new epoch (begins at sequence 0). An open transaction holds back the last stable offset until its marker is written,
and, where there are followers, until the marker is below the high watermark.

Before a producer's first batch of a transaction is appended, the coordinator is asked whether the transaction comprises
the partition. Until then a `Verification` is kept, and with it the lowest sequence that was offered: a later batch must
not overtake one whose verification has failed. It ends with the batch, or with a marker: then what was learned is about
a transaction that is over.

Snapshots (`.snapshot`, named by the offset they were taken at) are written when a segment rolls and at a clean stop,
so that recovery reads no more than the last segment. They hold the last batch of each producer only, so after a crash
recovery hands over the others that it saw (`windows`, `recall`): a client that had several batches under way sends them
all again, and each must be recognized.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.node.storage.directory.files import SNAPSHOT_SUFFIX, offset_name, offset_of, unlink_all
from barnabas.node.storage.segment.txn_index import AbortedTransaction
from barnabas.wire.batch import (
    CONTROL_FLAG,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    add_to_sequence,
    decode_records,
)
from barnabas.wire.checksum import crc32c
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError

REMEMBERED_BATCHES = 5
RECALLED_PRODUCERS_MAX = 1_000
NO_TRANSACTION = -1
NO_COORDINATOR_EPOCH = -1
DEFAULT_EXPIRATION_MS = 86_400_000
EPOCH_BUMPS_SINCE = 2  # transaction.version

SNAPSHOT_HEADER = struct.Struct(">hIi")  # version, crc of what follows it, count of entries
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
SNAPSHOT_VERSION = 1
pack_entry = SNAPSHOT_ENTRY.pack
SNAPSHOT_CRC_END = 6

MARKER_KEY = struct.Struct(">hh")
MARKER_VALUE = struct.Struct(">hi")
ABORT_MARKER = 0
COMMIT_MARKER = 1


class CorruptSnapshot(Exception):
    """The file cannot be trusted; an older one can, or the log itself."""


class RememberedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


NO_BATCH = RememberedBatch(NO_SEQUENCE, -1, 0, NO_TIMESTAMP)


class Window(NamedTuple):
    """The batches of one producer that a snapshot has no room for: it holds the last one only."""

    producer_id: int
    producer_epoch: int
    batches: list[RememberedBatch]


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "next_sequence",
        "producer_epoch",
        "row",
    )

    def __init__(
        self,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int = NO_TRANSACTION,
        batch: RememberedBatch | None = None,
    ) -> None:
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: deque[RememberedBatch] = deque((batch,) if batch else (), maxlen=REMEMBERED_BATCHES)
        self.next_sequence = add_to_sequence(batch.last_sequence, 1) if batch else 0
        # As it stands in a snapshot, until it changes: of thousands of producers few do between two snapshots.
        self.row: bytes | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def pack(self, producer_id: int) -> bytes:
        sequence, offset, delta, _ = self.batches[-1] if self.batches else NO_BATCH
        self.row = row = pack_entry(
            producer_id,
            self.producer_epoch,
            sequence,
            offset,
            delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )
        return row

    def enter_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
            self.next_sequence = 0


class Verification:
    """That a producer's transaction comprises this partition is being found out, or has been."""

    __slots__ = ("begins_at_zero", "lowest_sequence", "producer_epoch", "since_ms")

    def __init__(self, producer_epoch: int, lowest_sequence: int, begins_at_zero: bool, since_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        # With an epoch for each transaction a producer that is not known here begins with sequence 0.
        self.begins_at_zero = begins_at_zero
        self.since_ms = since_ms


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class ProducerState:
    def __init__(self, topic_partition: str, directory: str, *, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self.map_end_offset = 0
        self.snapshot_offset = 0
        self._ongoing: dict[int, int] = {}  # first offset of an open transaction -> producer id, in order of offsets
        self._unreplicated: dict[int, int] = {}  # first offset of a completed one -> offset of its marker
        self._verifications: dict[int, Verification] = {}

    # -- checks before an append, and the change after it

    def duplicate_of(self, header: BatchHeader) -> RememberedBatch | None:
        """The youngest that is alike: a producer that had been forgotten may have begun with the same numbers again."""
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        if entry.next_sequence == header.base_sequence and entry.batches:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in reversed(entry.batches):
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None

    def check(self, header: BatchHeader, offset: int, *, sequences: bool) -> None:
        """Raise if the producer may not write this batch at `offset`; only clients' sequences are looked at."""
        entry = self.producers.get(header.producer_id)
        if self._verifications and sequences:
            self._check_verification(header, offset)
        if entry is None or header.attributes & CONTROL_FLAG:
            if entry is not None and header.producer_epoch < entry.producer_epoch:
                raise self._old_epoch(header, entry, offset)
            return
        if header.producer_epoch < entry.producer_epoch:
            raise self._old_epoch(header, entry, offset)
        if sequences:
            self._check_sequence(header, entry, offset)
        if entry.current_txn_first_offset != NO_TRANSACTION and not header.attributes & TRANSACTIONAL_FLAG:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id} at offset {offset} "
                f"in partition {self.topic_partition}",
            )

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, now_ms: int, *, begins_at_zero: bool
    ) -> Verification:
        found = self._verifications.get(producer_id)
        if found is None or found.producer_epoch < producer_epoch:
            found = Verification(producer_epoch, base_sequence, begins_at_zero, now_ms)
            self._verifications[producer_id] = found
        elif found.producer_epoch == producer_epoch:
            found.lowest_sequence = min(found.lowest_sequence, base_sequence)
            found.begins_at_zero = begins_at_zero
        return found

    def is_verified(self, producer_id: int, producer_epoch: int, verification: Verification | None) -> bool:
        """Whether a batch of a transaction may be appended: one is open, or what was found out still holds."""
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return True
        return verification is not None and self._verifications.get(producer_id) is verification

    def _check_verification(self, header: BatchHeader, offset: int) -> None:
        found = self._verifications.get(header.producer_id)
        if found is None:
            return
        is_unknown = header.producer_id not in self.producers
        if header.base_sequence > (0 if found.begins_at_zero and is_unknown else found.lowest_sequence):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} at offset {offset} in partition "
                f"{self.topic_partition}: {header.base_sequence} (incoming seq. number), {found.lowest_sequence} "
                "(earliest seen sequence)",
            )

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """With an epoch for each transaction, the marker of an open one has a newer epoch than its batches."""
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        is_open = entry.current_txn_first_offset != NO_TRANSACTION
        newer = transaction_version >= EPOCH_BUMPS_SINCE and is_open
        if producer_epoch < entry.producer_epoch + newer:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"The marker of producer {producer_id} for {self.topic_partition} has epoch {producer_epoch}, and the "
                f"last seen epoch is {entry.producer_epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise self._old_coordinator(producer_id, coordinator_epoch, entry)

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry, offset: int) -> None:
        if entry.producer_epoch == NO_PRODUCER_EPOCH or entry.next_sequence == header.base_sequence:
            return
        if header.producer_epoch != entry.producer_epoch:
            if header.base_sequence == 0:
                return
            expected = f"{header.producer_epoch} (request epoch), {header.base_sequence} (seq. number), "
            expected += f"{entry.producer_epoch} (current producer epoch)"
        else:
            expected = f"{header.base_sequence} (incoming seq. number), "
            expected += f"{entry.last_sequence} (current end sequence number)"
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id} at offset {offset} "
            f"in partition {self.topic_partition}: {expected}",
        )

    def _old_epoch(self, header: BatchHeader, entry: ProducerEntry, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {header.producer_id} at offset {offset} in {self.topic_partition} is "
            f"{header.producer_epoch}, which is smaller than the last seen epoch {entry.producer_epoch}",
        )

    def update(self, header: BatchHeader, buffer: Buffer, position: int) -> AbortedTransaction | None:
        """Remember a batch that was appended (or found by recovery); an aborted transaction it ended is returned."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry()
        entry.row = None
        if self._verifications and header.attributes & TRANSACTIONAL_FLAG:
            self._verifications.pop(header.producer_id, None)
        if header.attributes & CONTROL_FLAG:
            return self._end_transaction(header, entry, buffer, position)
        if entry.producer_epoch != header.producer_epoch:
            entry.enter_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        last_sequence = header.last_sequence
        entry.batches.append(RememberedBatch(last_sequence, header.base_offset + delta, delta, header.max_timestamp))
        entry.next_sequence = add_to_sequence(last_sequence, 1)
        entry.last_timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_txn_first_offset == NO_TRANSACTION:
            entry.current_txn_first_offset = header.base_offset
            self._ongoing[header.base_offset] = header.producer_id
        return None

    def _end_transaction(
        self, header: BatchHeader, entry: ProducerEntry, buffer: Buffer, position: int
    ) -> AbortedTransaction | None:
        marker = read_marker(buffer, position)
        if marker is None:
            return None
        kind, coordinator_epoch = marker
        first_offset = entry.current_txn_first_offset
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.current_txn_first_offset = NO_TRANSACTION
        if first_offset == NO_TRANSACTION:
            return None
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = header.base_offset
        if kind != ABORT_MARKER:
            return None
        stable = next(iter(self._ongoing), header.base_offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, header.base_offset, stable)

    def check_coordinator(self, header: BatchHeader, buffer: Buffer, position: int) -> None:
        entry, marker = self.producers.get(header.producer_id), read_marker(buffer, position)
        if entry is not None and marker is not None and marker[1] < entry.coordinator_epoch:
            raise self._old_coordinator(header.producer_id, marker[1], entry)

    def _old_coordinator(self, producer_id: int, coordinator_epoch: int, entry: ProducerEntry) -> KafkaError:
        return KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"Invalid coordinator epoch for producerId {producer_id} in partition {self.topic_partition}: "
            f"{coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
        )

    # -- questions

    @property
    def all_decided(self) -> bool:
        """No transaction is open, and none has ended above the high watermark."""
        return not self._ongoing and not self._unreplicated

    def first_unstable_offset(self) -> int | None:
        first = min(self._unreplicated, default=None)
        ongoing = next(iter(self._ongoing), None)
        return ongoing if first is None or (ongoing is not None and ongoing < first) else first

    def high_watermark_moved(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._unreplicated = {at: end for at, end in self._unreplicated.items() if end >= high_watermark}

    def active(self) -> Iterator[ActiveProducer]:
        for producer_id, entry in self.producers.items():
            yield ActiveProducer(
                producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )

    def last_offsets(self) -> dict[int, tuple[int, int]]:
        """Of each producer: the last offset of its data, -1 if it has none, and its epoch."""
        return {
            producer_id: (entry.batches[-1].last_offset if entry.batches else -1, entry.producer_epoch)
            for producer_id, entry in self.producers.items()
        }

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        if entry is None or entry.current_txn_first_offset == NO_TRANSACTION:
            return False
        return entry.producer_epoch == producer_epoch

    def expire(self, now_ms: int) -> None:
        expired = [it for it, entry in self.producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        if self._verifications:
            oldest_ms = now_ms - self.expiration_ms
            kept = {it: found for it, found in self._verifications.items() if found.since_ms > oldest_ms}
            self._verifications = kept

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        idle = entry.current_txn_first_offset == NO_TRANSACTION
        return idle and now_ms - entry.last_timestamp >= self.expiration_ms

    # -- files

    def clear(self, map_end_offset: int) -> None:
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._verifications.clear()
        self.map_end_offset = map_end_offset

    def load(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Start from the newest snapshot that is whole and within the log; it knows up to `map_end_offset`."""
        self.clear(log_start_offset)
        self.snapshot_offset = log_start_offset
        for offset in reversed(snapshot_offsets(self.directory)):
            if offset > log_end_offset:
                continue
            if offset < log_start_offset:
                return
            path = self._path(offset)
            try:
                found = read_snapshot(path)
            except CorruptSnapshot:
                unlink_all([path])
                continue
            self._take_over(found, now_ms)
            self.map_end_offset = self.snapshot_offset = offset
            return

    def _take_over(self, found: dict[int, ProducerEntry], now_ms: int) -> None:
        self.producers = {it: entry for it, entry in found.items() if not self._is_expired(entry, now_ms)}
        open_ones = [(entry.current_txn_first_offset, it) for it, entry in self.producers.items()]
        self._ongoing = dict(sorted(each for each in open_ones if each[0] != NO_TRANSACTION))

    def windows(self) -> list[Window]:
        """Of those producers that wrote last: more than one batch of them may have been under way in a crash."""
        several = [(pid, entry) for pid, entry in self.producers.items() if len(entry.batches) > 1]
        several.sort(key=lambda one: one[1].batches[-1].last_offset)
        return [
            Window(pid, entry.producer_epoch, list(entry.batches)) for pid, entry in several[-RECALLED_PRODUCERS_MAX:]
        ]

    def recall(self, windows: Iterable[Window]) -> None:
        for producer_id, producer_epoch, batches in windows:
            entry = self.producers.get(producer_id)
            if entry is not None and entry.producer_epoch == producer_epoch and entry.batches:
                remembered = [RememberedBatch(*batch) for batch in batches]
                if remembered[-1] == entry.batches[-1]:
                    entry.batches = deque(remembered, maxlen=REMEMBERED_BATCHES)

    def take_snapshot(self) -> str | None:
        """Write what is known up to `map_end_offset`, unless that was done; the caller has it fsynced."""
        if self.map_end_offset <= self.snapshot_offset:
            return None
        path = self._path(self.map_end_offset)
        write_snapshot(path, self.producers)
        self.snapshot_offset = self.map_end_offset
        return path

    def remove_snapshots(self, *, before: int | None = None, after: int | None = None) -> None:
        self.remove_snapshots_at(
            offset
            for offset in snapshot_offsets(self.directory)
            if (before is not None and offset < before) or (after is not None and offset > after)
        )

    def remove_snapshots_at(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            unlink_all([self._path(offset)])
            if offset == self.snapshot_offset:
                self.snapshot_offset = 0

    def _path(self, offset: int) -> str:
        return f"{self.directory}/{offset_name(offset, SNAPSHOT_SUFFIX)}"


def read_marker(buffer: Buffer, position: int) -> tuple[int, int] | None:
    """Kind and coordinator epoch of an end-of-transaction marker; None if compaction emptied the batch."""
    records = decode_records(buffer, position)
    if not records or records[0].key is None or records[0].value is None:
        return None
    try:
        _, kind = MARKER_KEY.unpack_from(records[0].key)
        _, coordinator_epoch = MARKER_VALUE.unpack_from(records[0].value)
    except struct.error as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"A control record is no end-of-transaction marker: {error}"
        ) from error
    return (kind, coordinator_epoch) if kind in (ABORT_MARKER, COMMIT_MARKER) else None


def snapshot_offsets(directory: str) -> list[int]:
    found = (offset_of(name) for name in os.listdir(directory) if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(offset for offset in found if offset is not None)


def write_snapshot(path: str, producers: dict[int, ProducerEntry]) -> None:
    rows = [entry.row or entry.pack(producer_id) for producer_id, entry in producers.items()]
    body = struct.pack(">i", len(rows)) + b"".join(rows)
    content = struct.pack(">hI", SNAPSHOT_VERSION, crc32c(body)) + body
    if content != existing_snapshot(path):
        with open(path, "wb") as file:
            file.write(content)


def existing_snapshot(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def has_open_transaction(path: str) -> bool:
    """Whether a snapshot knows of a transaction that was open; True if there is no sound one."""
    content = existing_snapshot(path)
    if content is None or len(content) % SNAPSHOT_ENTRY.size != SNAPSHOT_HEADER.size:
        return True
    version, crc, _ = SNAPSHOT_HEADER.unpack_from(content)
    if version != SNAPSHOT_VERSION or crc32c(content[SNAPSHOT_CRC_END:]) != crc:
        return True
    return any(row[-1] >= 0 for row in SNAPSHOT_ENTRY.iter_unpack(content[SNAPSHOT_HEADER.size :]))


def read_snapshot(path: str) -> dict[int, ProducerEntry]:
    with open(path, "rb") as file:
        content = file.read()
    try:
        version, crc, count = SNAPSHOT_HEADER.unpack_from(content)
    except struct.error:
        raise CorruptSnapshot(f"{path} has only {len(content)} bytes") from None
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"{path} has version {version}")
    if crc32c(content[SNAPSHOT_CRC_END:]) != crc:
        raise CorruptSnapshot(f"{path} does not match its checksum")
    if len(content) != SNAPSHOT_HEADER.size + count * SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{path} announces {count} producers and has {len(content)} bytes")
    producers: dict[int, ProducerEntry] = {}
    for row in SNAPSHOT_ENTRY.iter_unpack(content[SNAPSHOT_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_offset = row
        batch = RememberedBatch(last_sequence, last_offset, offset_delta, timestamp) if last_offset >= 0 else None
        producers[producer_id] = ProducerEntry(epoch, coordinator_epoch, timestamp, max(txn_offset, -1), batch)
    return producers
