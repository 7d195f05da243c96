"""What a partition's log must be after a crash, kept beside the log while it is written, and the comparison.

Of everything appended, a first part must be there: all that was synced, and any number of batches behind it, byte for
byte. What was cut off (a truncation) may be back as long as nothing was synced since. The start may have fallen back.
Everything else is derived from the batches and must agree with them: epochs, producers, transactions, indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.producer_state import ABORT_MARKER, NO_TRANSACTION, read_marker
from barnabas.node.storage.recovery.recovery import ensure_valid
from barnabas.wire.batch import BatchHeader, Record, decode_records, read_header
from barnabas.wire.uuids import Uuid
from tests.support.log_reading import iterate, offset_for_timestamp


@dataclass(frozen=True, slots=True)
class Stored:
    header: BatchHeader
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Stored:
        return cls(read_header(data), data)

    @property
    def end_offset(self) -> int:
        return self.header.last_offset + 1


@dataclass(slots=True)
class ExpectedProducer:
    epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    transaction_from: int = NO_TRANSACTION
    data: bytes = b""


class ExpectedProducers:
    """The state that a log's batches add up to, in the plainest way."""

    def __init__(self, batches: Iterable[Stored]) -> None:
        self.known: dict[int, ExpectedProducer] = {}
        self.aborted: set[tuple[int, int, int]] = set()
        for batch in batches:
            if batch.header.producer_id >= 0:
                self._add(batch)

    def _add(self, batch: Stored) -> None:
        header = batch.header
        producer = self.known.setdefault(header.producer_id, ExpectedProducer())
        if header.is_control:
            marker = read_marker(batch.data, 0)
            assert marker is not None
            if marker[0] == ABORT_MARKER and producer.transaction_from != NO_TRANSACTION:
                self.aborted.add((header.producer_id, producer.transaction_from, header.base_offset))
            producer.transaction_from = NO_TRANSACTION
            if producer.epoch != header.producer_epoch:
                producer.epoch, producer.last_sequence, producer.last_offset = header.producer_epoch, -1, -1
            return
        producer.epoch, producer.last_sequence = header.producer_epoch, header.last_sequence
        producer.last_offset, producer.data = header.last_offset, batch.data
        if header.is_transactional and producer.transaction_from == NO_TRANSACTION:
            producer.transaction_from = header.base_offset


@dataclass(slots=True)
class History:
    topic_id: Uuid
    config: LogConfig
    batches: list[Stored] = field(default_factory=list)
    synced_end: int = 0
    log_start_offset: int = 0
    leader_epoch: int = 0
    is_durable: bool = False  # the partition itself: a later life must find it
    # What the log was before a truncation that is not surely on the disk.
    cut_off: list[list[Stored]] = field(default_factory=list)
    truncations: list[int] = field(default_factory=list)
    producer_ids: set[int] = field(default_factory=set)
    may_have_holes: bool = False  # compaction may have been at work
    committed_end: int = 0  # when the cleaner last looked: what is below may be gone for the sake of something below

    def __post_init__(self) -> None:
        self.configure(self.config)

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self.may_have_holes = self.may_have_holes or config.compacted

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.log_start_offset

    def append(self, batch: Stored) -> None:
        self.batches.append(batch)
        self.producer_ids.add(batch.header.producer_id)

    def synced(self, end_offset: int, truncations: int) -> None:
        """A sync that was asked for at `end_offset`, when so many truncations had been made, is done."""
        self.is_durable = True
        self.synced_end = max(self.synced_end, min([end_offset, *self.truncations[truncations:]]))
        if truncations == len(self.truncations):
            self.cut_off.clear()

    def truncated(self, offset: int) -> None:
        self.truncations.append(offset)
        self.cut_off.append(list(self.batches))
        self.batches = [batch for batch in self.batches if batch.end_offset <= offset]
        self.synced_end = min(self.synced_end, offset)

    def check(self, log: PartitionLog, random: Random) -> None:
        """Everything that must be so after a start; from then on what was found is what must stay."""
        found = found_batches(log)
        start = log.log_start_offset
        # The first segment of a partition of which nothing was synced yet may be the one that is lost.
        assert start <= self.log_start_offset or not self.is_durable, (
            f"{log.name} begins at {start}, nobody asked for that"
        )
        assert log.log_end_offset >= self.synced_end, (
            f"{log.name} ends at {log.log_end_offset}, {self.synced_end} was synced"
        )
        if self.may_have_holes:
            expected = self._compacted(found, start, log.log_end_offset)
        else:
            expected = self._prefix(found, start, log.log_end_offset)
        producers = ExpectedProducers(expected)
        first_offset = found[0].header.base_offset if found else start
        check_producers(log, producers, first_offset, may_have_holes=self.may_have_holes)
        unknown = set(log.producers.producers) - self.producer_ids
        assert not unknown, f"nobody wrote as {unknown}"
        check_epochs(log, found)
        check_lookups(log, found, random)
        check_duplicate(log, producers, start, random)
        self.batches = expected
        self.log_start_offset = start
        self.synced_end = log.log_end_offset
        self.leader_epoch = max(self.leader_epoch, log.epochs.latest)
        self.cut_off.clear()
        self.is_durable = True

    def _prefix(self, found: list[Stored], start: int, end_offset: int) -> list[Stored]:
        """The batches of the version that was found, those below the log's start included."""
        held = [batch.data for batch in found]
        reasons = []
        for version in (self.batches, *reversed(self.cut_off)):
            upto = [batch for batch in version if batch.end_offset <= end_offset]
            wanted = [batch.data for batch in upto if batch.header.last_offset >= start]
            if held == wanted and (not upto or upto[-1].end_offset == end_offset or not held):
                return upto
            reasons.append(difference(found, [Stored.of(data) for data in wanted]))
        raise AssertionError(f"the log from {start} to {end_offset} is not what was written: {'; '.join(reasons)}")

    def _compacted(self, found: list[Stored], start: int, end_offset: int) -> list[Stored]:
        """Every record found is one that was written, and of every key there is one not older than what was synced.

        Where compaction makes holes, recovery cannot know those that the crash made among what was not synced.
        """
        held = {record.offset: record for record in records_of(found)}
        latest = {record.key: record.offset for record in held.values()}
        reasons = []
        for version in (self.batches, *reversed(self.cut_off)):
            upto = [batch for batch in version if batch.end_offset <= end_offset]
            written = {record.offset: record for record in records_of(upto)}
            strange = [offset for offset, record in held.items() if written.get(offset) != record]
            synced = {record.key: record.offset for record in written.values() if record.offset < self.synced_end}
            missing = [offset for key, offset in synced.items() if offset >= start and latest.get(key, -1) < offset]
            if not strange and not missing:
                return found
            reasons.append(f"not those that were written: {strange}, last of their keys and gone: {missing}")
        raise AssertionError(f"the records from {start} to {end_offset} are wrong: {'; '.join(reasons)}")


def difference(found: Sequence[Stored], wanted: Sequence[Stored]) -> str:
    for number, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one.data != other.data:
            return (
                f"batch {number} is {one.header.base_offset}..{one.header.last_offset} of epoch "
                f"{one.header.leader_epoch}, expected {other.header.base_offset}..{other.header.last_offset} "
                f"of epoch {other.header.leader_epoch}"
            )
    return f"{len(found)} batches, expected {len(wanted)}"


def found_batches(log: PartitionLog) -> list[Stored]:
    found = [Stored.of(bytes(batch)) for batch in iterate(log)]
    end = log.log_start_offset
    for batch in found:
        ensure_valid(batch.data, 0, batch.header)
        assert batch.end_offset > end or batch is found[0], "offsets do not rise"
        end = batch.end_offset
    assert end <= log.log_end_offset
    return found


def check_producers(log: PartitionLog, expected: ExpectedProducers, first_offset: int, *, may_have_holes: bool) -> None:
    """Producers whose batches are below the log's start may be known or not."""
    for producer_id, producer in expected.known.items():
        entry = log.producers.producers.get(producer_id)
        if producer.last_offset < first_offset:
            continue
        assert entry is not None, f"producer {producer_id} is not known"
        known, wanted = (entry.producer_epoch, entry.last_sequence), (producer.epoch, producer.last_sequence)
        if may_have_holes and known > wanted:
            continue  # a snapshot may know more than a log with a hole
        assert known == wanted, f"producer {producer_id} of {log.name} is at {known}, not at {wanted}"
        assert entry.batches[-1].last_offset == producer.last_offset
        if producer.transaction_from == NO_TRANSACTION or producer.transaction_from >= first_offset:
            assert entry.current_txn_first_offset == producer.transaction_from
    segments = [each.base_offset for each in log.segments]
    where = f"{log.name} {log.log_start_offset}..{log.log_end_offset}, segments {segments}"
    aborted = {each[:3] for each in log.aborted_transactions(first_offset, log.log_end_offset)}
    certain = {each for each in expected.aborted if each[1] >= first_offset}
    assert certain <= aborted, f"aborted transactions {certain - aborted} are forgotten: {where}"
    # Where a transaction began that reaches below the first segment, nobody knows any more.
    ends = {(each[0], each[2]) for each in expected.aborted if each[1] < first_offset}
    invented = {each for each in aborted - expected.aborted if (each[0], each[2]) not in ends}
    assert not invented, f"transactions {invented} were not aborted: {where}"


def check_epochs(log: PartitionLog, found: Sequence[Stored]) -> None:
    for batch in found:
        offset = max(batch.header.base_offset, log.log_start_offset)
        epoch = log.epochs.epoch_for_offset(offset)
        assert epoch == batch.header.leader_epoch, (
            f"offset {offset} is of epoch {batch.header.leader_epoch}, not {epoch}"
        )


def check_lookups(log: PartitionLog, found: Sequence[Stored], random: Random) -> None:
    if not found:
        return
    batch = random.choice(found)
    offset = max(random.randint(batch.header.base_offset, batch.header.last_offset), log.log_start_offset)
    first = Stored.of(log.read(offset, 1))
    assert first.header.base_offset <= offset <= first.header.last_offset, f"a read at {offset} finds {first.header}"
    wanted = batch.header.max_timestamp
    records = (record for each in found for record in decode_records(each.data))
    reached = (each for each in records if each.timestamp >= wanted and each.offset >= log.log_start_offset)
    expected = next(((each.offset, each.timestamp) for each in reached), None)
    at = offset_for_timestamp(log, wanted)
    assert (at and (at.offset, at.timestamp)) == expected, f"time {wanted} is found at {at}, not at {expected}"


def check_duplicate(log: PartitionLog, expected: ExpectedProducers, start: int, random: Random) -> None:
    """A producer that sends its last batch again is told where it is."""
    known = [
        producer
        for producer_id, producer in expected.known.items()
        if producer.last_offset >= start and is_whole(producer.data) and is_up_to_date(log, producer_id, producer)
    ]
    if not known:
        return
    producer = random.choice(known)
    again = bytearray(producer.data)
    again[:8] = bytes(8)
    end_offset = log.log_end_offset
    appended = log.append(again, leader_epoch=0, now_ms=read_header(again).max_timestamp)
    assert appended.duplicate
    assert appended.last_offset == producer.last_offset
    assert log.log_end_offset == end_offset


def is_up_to_date(log: PartitionLog, producer_id: int, producer: ExpectedProducer) -> bool:
    """Where compaction made holes, a snapshot may know of later batches than the log."""
    entry = log.producers.producers[producer_id]
    return (entry.producer_epoch, entry.last_sequence) == (producer.epoch, producer.last_sequence)


def is_whole(data: bytes) -> bool:
    """Not one of those from which compaction took records."""
    return bool(data) and read_header(data).records_count == read_header(data).last_offset_delta + 1


def records_of(batches: Iterable[Stored]) -> list[Record]:
    return [record for batch in batches if not batch.header.is_control for record in decode_records(batch.data)]
