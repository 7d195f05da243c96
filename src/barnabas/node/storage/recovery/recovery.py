"""After an unclean stop: what the files hold is found out, and put in order.

From the segment of the recovery point on every batch is read and its checksum verified; at the first bad one the log
ends, unless it lies below the recovery point: that was on the disk once, the damage is of another kind, and nothing
behind it is given up for it (`UnverifiedPart` keeps it from being read). The log also ends before a segment that does
not begin where the one before it ends: the disk may have lost the end of that one and not the next, and a hole is
worse than a shorter log. (Compaction makes holes, so where there may have been one, `continuous` is not set; and a
hole that begins below the recovery point is no lost end.) What is behind the end is removed for good before anything
else is written, or it might come back after the next crash and follow on batches it does not belong to. So are
segments below the log's start.

Indexes are written anew, leader epochs and producers' state are read from the batches. Work goes from files to files,
so it can be done by this process or, for much data, by a child (`python -m barnabas.node.storage.recovery.recovery`):
some jobs go in and their results come out, a line of JSON each.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from barnabas.node.storage.directory.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    FileHandles,
    PooledFile,
    fsync_path,
    offset_name,
    offset_of,
    unlink_all,
)
from barnabas.node.storage.leader_epochs import LeaderEpochs
from barnabas.node.storage.producer_state import DEFAULT_EXPIRATION_MS, ProducerState, Window, read_marker
from barnabas.node.storage.segment.offset_index import OffsetIndex
from barnabas.node.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from barnabas.node.storage.segment.txn_index import TransactionIndex
from barnabas.wire.batch import (
    FIXED_LENGTH_BYTES,
    HEADER_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    batch_crc,
    read_header,
)
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError

SCAN_BYTES = 1024 * 1024
RELATIVE_OFFSET_MAX = 2**31 - 1
CHECKPOINT_DELETED_SUFFIX = ".checkpoint" + DELETED_SUFFIX


class Job(NamedTuple):
    directory: str
    recovery_point: int
    log_start_offset: int
    index_interval_bytes: int
    now_ms: int
    producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS
    continuous: bool = False  # above the recovery point each batch and segment begins where the one before it ends


class Recovered(NamedTuple):
    log_end_offset: int
    scanned_bytes: int
    truncated_bytes: int
    epochs: list[tuple[int, int]]
    cut: str = ""  # why the log ends there, if something was removed
    damage: str = ""  # what is damaged and was left as it is
    windows: Sequence[Window] = ()  # what clients may send again
    has_holes: bool = False  # above the recovery point, in a log in which compaction may have made them
    gone: Sequence[int] = ()  # base offsets of segments of which only an index is there


def ensure_valid(buffer: Buffer, position: int, header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {header.magic}")
    if batch_crc(buffer, position, header.size) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")


def tidy(directory: str) -> None:
    """Finish what was begun: deleted and half-cleaned files go, segments that compaction completed come in."""
    names = os.listdir(directory)
    leftovers = [name for name in names if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX))]
    if not leftovers:
        return
    cleaned = {offset_of(name) for name in leftovers if name.endswith(CLEANED_SUFFIX)}
    swaps = [name for name in leftovers if name.endswith(SWAP_SUFFIX)]
    # As long as one of its files is still `.cleaned`, nothing was taken away for the sake of a new segment.
    unfinished = [name for name in swaps if offset_of(name) in cleaned]
    gone = [name for name in leftovers if name not in swaps and not name.endswith(CHECKPOINT_DELETED_SUFFIX)]
    unlink_all(f"{directory}/{name}" for name in gone + unfinished)
    swaps = [name for name in swaps if name not in unfinished]
    if swaps:
        finish_swap(directory, names, swaps)


def finish_swap(directory: str, names: list[str], swaps: list[str]) -> None:
    """The replaced segments are gone for good before the new one has its name: both together would be no log.

    There may be several new ones. What lies between them, none of them replaces.
    """
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        spans = [(first := offset_of(name) or 0, max(first + 1, next_offset_in(directory, name))) for name in logs]
        segment_files = [(offset_of(name) or 0, name) for name in names if name.endswith(SEGMENT_SUFFIXES)]
        replaced = [name for at, name in segment_files if any(start <= at < end for start, end in spans)]
        unlink_all(f"{directory}/{name}" for name in replaced)
        fsync_path(directory)
    for name in swaps:
        os.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    # For good, too: the next cleaning's files would make a swap that came back look unfinished.
    fsync_path(directory)


def next_offset_in(directory: str, name: str) -> int:
    found = offset_of(name) or 0
    fd = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for header, _, _, _ in scan(fd, os.fstat(fd).st_size):
            found = header.last_offset + 1
    finally:
        os.close(fd)
    return found


def scan(fd: int, size: int, position: int = 0) -> Iterator[tuple[BatchHeader, int, memoryview, int]]:
    """Whole batches from a position of a file on: header, position in the file, a buffer and the position in it.

    It ends where the bytes are no batch. The buffer is used again for the next part of the file.
    """
    buffer = bytearray(min(SCAN_BYTES, max(size, HEADER_BYTES)))
    while size - position >= HEADER_BYTES:
        view = memoryview(buffer)
        filled = os.preadv(fd, [view], position)
        at = 0
        while filled - at >= HEADER_BYTES:
            header = read_header(view, at)
            if header.batch_length < FIXED_LENGTH_BYTES or header.size > size - position:
                return
            if header.size > filled - at:
                break
            yield header, position, view, at
            at += header.size
            position += header.size
        if not at:
            if filled < HEADER_BYTES:
                return
            buffer = bytearray(header.size)


def find_batch(fd: int, size: int, position: int, offsets: range) -> int | None:
    """Where, from a position on, the next sound batch begins whose offsets are among these."""
    while size - position >= HEADER_BYTES:
        piece = os.pread(fd, SCAN_BYTES + HEADER_BYTES, position)
        at = piece.find(MAGIC, MAGIC_OFFSET)
        while 0 <= at < len(piece) - (HEADER_BYTES - MAGIC_OFFSET) + 1:
            start = at - MAGIC_OFFSET
            header = read_header(piece, start)
            fits = header.batch_length >= FIXED_LENGTH_BYTES and header.size <= size - position - start
            if fits and header.base_offset in offsets and header.last_offset in offsets:
                batch = os.pread(fd, header.size, position + start)
                if batch_crc(batch, 0, header.size) == header.crc:
                    return position + start
            at = piece.find(MAGIC, at + 1)
        position += SCAN_BYTES
    return None


class Scanner:
    """The state that grows while a log is scanned."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.handles = FileHandles(16)
        self.epochs = LeaderEpochs.load(job.directory)
        self.producers = ProducerState(
            os.path.basename(job.directory), job.directory, expiration_ms=job.producer_id_expiration_ms
        )
        self.end_offset = 0
        self.scanned_bytes = 0
        self.truncated_bytes = 0
        self.cut = self.damage = ""
        self.has_holes = False

    def file(self, base_offset: int, suffix: str) -> PooledFile:
        return PooledFile(self.handles, self.job.directory, offset_name(base_offset, suffix))

    def load_producers(self, bases: list[int], start: int) -> None:
        """The producers' state at the beginning of segment `start`: a snapshot, and what lies between."""
        base_offset = bases[start]
        self.producers.load(self.job.log_start_offset, base_offset, self.job.now_ms)
        known = self.producers.map_end_offset
        for slot in range(start):
            if bases[slot + 1] <= known:
                continue
            log = self.file(bases[slot], LOG_SUFFIX)
            for header, position, view, at in scan(log.fileno(), log.size()):
                if header.producer_id >= 0 and header.last_offset >= known:
                    try:
                        ensure_valid(view, at, header)
                        self.producers.update(header, view, at)
                    except KafkaError as error:
                        self.damage = f"{log.name} is damaged at position {position}: {error.message}"
            log.close()
        self.producers.map_end_offset = max(base_offset, known)

    def follows(self, base_offset: int) -> bool:
        """Whether a segment may come next. No crash tears what was synced: a hole that begins below the recovery point
        is of segments that were deleted, of which an older one has come back."""
        may_leap = not self.job.continuous or self.end_offset < self.job.recovery_point
        if base_offset == self.end_offset or (base_offset > self.end_offset and may_leap):
            self._note_hole(base_offset)
            return True
        self.cut = f"the segment at {base_offset} does not follow on offset {self.end_offset}"
        return False

    def _note_hole(self, next_offset: int) -> None:
        self.has_holes = self.has_holes or next_offset > self.end_offset >= self.job.recovery_point

    def _problem(self, base_offset: int, header: BatchHeader, view: memoryview, at: int) -> str:
        """Why a batch cannot come next in a segment, "" if it can."""
        try:
            ensure_valid(view, at, header)
        except KafkaError as error:
            return error.message
        in_order = self.end_offset <= header.base_offset <= header.last_offset <= base_offset + RELATIVE_OFFSET_MAX
        broken = self.job.continuous and header.base_offset > self.end_offset >= self.job.recovery_point
        if header.is_control and header.producer_id >= 0:
            try:
                read_marker(view, at)
            except KafkaError as error:
                return error.message
        return "" if in_order and not broken else f"offset {header.base_offset} comes after {self.end_offset - 1}"

    def _behind_damage(self, fd: int, size: int, position: int) -> int | None:
        """Where batches go on behind what is none, if they were on the disk once: no crash tears what was synced."""
        missed = range(self.end_offset, self.job.recovery_point)
        return find_batch(fd, size, position + 1, missed) if missed and position < size else None

    def segment(self, base_offset: int, *, below: bool = False) -> bool:
        """Scan one segment and write its indexes; False if it had to be cut.

        One that is wholly `below` the recovery point is not cut, and its indexes are synced, since no flush will do it.
        """
        log = self.file(base_offset, LOG_SUFFIX)
        size, fd = log.size(), log.fileno()
        offsets = OffsetIndex(self.file(base_offset, INDEX_SUFFIX), base_offset, new=True)
        times = TimeIndex(self.file(base_offset, TIME_INDEX_SUFFIX), base_offset, new=True)
        transactions = TransactionIndex(
            self.file(base_offset, TXN_INDEX_SUFFIX),
            exists=os.path.exists(self.file(base_offset, TXN_INDEX_SUFFIX).path),
        )
        transactions.clear()
        self.end_offset = max(self.end_offset, base_offset)
        valid = indexed = 0
        max_timestamp, max_at = NO_TIMESTAMP, base_offset
        why = "no whole record batch follows"
        resumed: int | None = 0
        while resumed is not None:
            for header, position, view, at in scan(fd, size, resumed):
                problem = self._problem(base_offset, header, view, at)
                if problem:
                    if max(header.base_offset, self.end_offset) >= self.job.recovery_point:
                        why = problem
                        break
                    self.damage = f"{log.name} is damaged at position {position}: {problem}"
                    valid = position + header.size
                    continue
                self._note_hole(header.base_offset)
                last_offset = header.last_offset
                if header.max_timestamp > max_timestamp:
                    max_timestamp, max_at = header.max_timestamp, last_offset
                if position - indexed > self.job.index_interval_bytes or (position == resumed and position):
                    offsets.append(last_offset, position)
                    times.maybe_append(max_timestamp, max_at)
                    indexed = position
                if header.leader_epoch > self.epochs.latest:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
                if header.producer_id >= 0 and (aborted := self.producers.update(header, view, at)) is not None:
                    transactions.append(aborted)
                self.end_offset = last_offset + 1
                valid = position + header.size
            resumed = self._behind_damage(fd, size, valid)
            if resumed is not None:
                self.damage = f"{log.name} is damaged from position {valid} to {resumed}: {why}"
        times.maybe_append(max_timestamp, max_at)
        offsets.write(trim=True)
        times.write(trim=True)
        if valid < size and below:
            self.damage = f"{log.name} is damaged at position {valid}: {why}"
            valid = size
        elif valid < size:
            self.cut = f"{log.name} has {size} bytes and is cut at {valid}: {why}"
            os.ftruncate(log.fileno(), valid)
        if below:
            for file in (offsets.file, times.file, *((transactions.file,) if transactions.exists else ())):
                os.fsync(file.fileno())
        for file in (log, offsets.file, times.file, transactions.file):
            file.close()
        self.scanned_bytes += valid
        self.truncated_bytes += size - valid
        self.producers.map_end_offset = self.end_offset
        return valid == size


def recover(job: Job) -> Recovered:
    """Put an uncleanly closed log's files in order; afterwards they can be opened like cleanly closed ones."""
    names = set(os.listdir(job.directory))
    bases = bases_of(job, names)
    gone = gone_between(names, bases)
    remove_orphans(job.directory, names, set(bases))
    scanner = Scanner(job)
    if not bases:
        return Recovered(job.log_start_offset, 0, 0, [])
    start = first_to_scan(job, bases)
    scanner.load_producers(bases, start)
    scanner.epochs.truncate_from_end(bases[start])  # from there on the batches say it themselves
    for slot, base_offset in enumerate(bases[start:], start):
        if slot > start:
            if not scanner.follows(base_offset):
                scanner.truncated_bytes += remove_segments(job.directory, bases[slot:])
                break
            scanner.producers.map_end_offset = base_offset
            scanner.producers.take_snapshot()
        below = slot + 1 < len(bases) and bases[slot + 1] <= job.recovery_point
        if not scanner.segment(base_offset, below=below):
            scanner.truncated_bytes += remove_segments(job.directory, bases[slot + 1 :])
            break
    end_offset = scanner.end_offset
    scanner.producers.remove_snapshots(after=end_offset)
    if end_offset > job.log_start_offset:
        scanner.producers.take_snapshot()
    scanner.epochs.truncate_from_end(end_offset)
    return Recovered(
        end_offset,
        scanner.scanned_bytes,
        scanner.truncated_bytes,
        scanner.epochs.entries(),
        scanner.cut,
        scanner.damage,
        scanner.producers.windows(),
        scanner.has_holes,
        [base for base in gone if base < job.recovery_point],
    )


def remove_segments(directory: str, bases: list[int]) -> int:
    """Segments behind the log's end go for good; how many bytes they had."""
    if not bases:
        return 0
    size = sum(os.stat(f"{directory}/{offset_name(base, LOG_SUFFIX)}").st_size for base in bases)
    # The last first: whatever a crash leaves of them follows on what is before.
    unlink_all(f"{directory}/{offset_name(base, suffix)}" for base in reversed(bases) for suffix in SEGMENT_SUFFIXES)
    fsync_path(directory)
    return size


def remove_orphans(directory: str, names: set[str], bases: set[int]) -> None:
    """Segments that do not belong to the log, and index files whose log is gone."""
    files = sorted(name for name in names if name.endswith(SEGMENT_SUFFIXES) and offset_of(name) is not None)
    unlink_all(f"{directory}/{name}" for name in files if offset_of(name) not in bases)


def gone_between(names: Iterable[str], bases: list[int]) -> list[int]:
    """Base offsets between these of which there are only indexes. Before the first segment and behind the last one, a
    crash amid a deletion or a truncation leaves such indexes."""
    found = {offset_of(name) or 0 for name in names if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX))}
    return sorted(base for base in found.difference(bases) if bases and bases[0] < base < bases[-1])


def first_to_scan(job: Job, bases: list[int]) -> int:
    """The segment in which the last flush ended, whose indexes it left out."""
    return max((slot for slot, base in enumerate(bases) if base < job.recovery_point), default=0)


def bases_of(job: Job, names: Iterable[str]) -> list[int]:
    """The segments that belong to the log. Below its start there may be others, which were about to be deleted: not all
    of them, and since their turn to be synced did not come any more, not all there is to them."""
    found = sorted(offset for name in names if name.endswith(LOG_SUFFIX) and (offset := offset_of(name)) is not None)
    return found[max(bisect_right(found, job.log_start_offset) - 1, 0) :]


def bytes_to_scan(job: Job) -> int:
    bases = bases_of(job, os.listdir(job.directory))
    if not bases:
        return 0
    return sum(
        os.stat(f"{job.directory}/{offset_name(base, LOG_SUFFIX)}").st_size
        for base in bases[first_to_scan(job, bases) :]
    )


def die_with_parent(parent: int) -> None:
    """The parent holds the lock of the directory: without it nobody may write there."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    for line in sys.stdin:
        jobs = [Job(*fields) for fields in json.loads(line)]
        try:
            for job in jobs:
                tidy(job.directory)
            found = [recover(job) for job in jobs]
        except OSError as error:
            sys.exit(f"A log cannot be recovered: {error}")
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
