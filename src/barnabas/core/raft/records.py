"""What the quorum persists: `quorum-state`, control records in the log and in snapshots, batches of records.

Control records are written in version 0, as Kafka reads them: a LeaderChangeMessage of version 1 stops a Kafka node.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from barnabas.core.raft.log import FIRST_SNAPSHOT, RaftLog, SnapshotId
from barnabas.core.raft.voters import ReplicaKey, VoterHistory, VoterSet
from barnabas.wire import batch as wire
from barnabas.wire.codec import DecodeError
from barnabas.wire.errors import KafkaError
from barnabas.wire.records import raft
from barnabas.wire.schema import Buffer, Record
from barnabas.wire.uuids import ZERO_UUID, Uuid

CONTROL_TYPES: Mapping[int, type[Record]] = {
    2: raft.LeaderChangeMessage,
    3: raft.SnapshotHeaderRecord,
    4: raft.SnapshotFooterRecord,
    5: raft.KRaftVersionRecord,
    6: raft.VotersRecord,
}
_CONTROL_CODES = {record_type: code for code, record_type in CONTROL_TYPES.items()}
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VALUE_VERSION = struct.Struct(">h")
_READ_BYTES = 1024 * 1024


class InvalidBatch(Exception):
    """Why batches cannot be appended or read, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The content of `quorum-state`: the epoch this replica is in, whom it follows and whom it voted for.

    Version 1 belongs to quorums whose voters are in the log (kraft.version 1), version 0 to those whose voters are
    configured.
    """

    leader_id: int = -1
    epoch: int = 0
    voted_id: int = -1
    voted_directory_id: Uuid = ZERO_UUID
    static_voters: tuple[int, ...] = ()
    data_version: int = 1

    @property
    def voted_key(self) -> ReplicaKey | None:
        return ReplicaKey(self.voted_id, self.voted_directory_id) if self.voted_id >= 0 else None


@dataclass(frozen=True, slots=True)
class SnapshotVoters:
    """The control records that a snapshot has behind its header."""

    kraft_version: int
    voters: VoterSet | None

    @property
    def records(self) -> list[Record]:
        if self.kraft_version == 0 or self.voters is None:
            return []
        return [raft.KRaftVersionRecord(k_raft_version=self.kraft_version), self.voters.to_record()]


def build_batch(values: Sequence[bytes], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    framed = [wire.Record(base_offset + index, now_ms, None, value) for index, value in enumerate(values)]
    return bytes(wire.build_batch(framed, base_offset=base_offset, leader_epoch=epoch))


def build_control_batch(records: Sequence[Record], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    framed = [
        wire.Record(
            base_offset + index, now_ms, _CONTROL_KEY.pack(0, _CONTROL_CODES[type(record)]), bytes(record.encode(0))
        )
        for index, record in enumerate(records)
    ]
    return bytes(wire.build_batch(framed, base_offset=base_offset, leader_epoch=epoch, control=True))


def check_batches(data: Buffer, *, next_offset: int, last_epoch: int, epoch: int) -> int:
    """How many bytes of a leader's answer are whole batches that continue the log; the rest is a batch cut short.

    Batches of an epoch above the leader's are left out, as Kafka leaves them: a later answer brings them.
    """
    position = 0
    for position, header in wire.iterate_batches(data):
        try:
            wire.validate(data, position)
        except KafkaError as error:
            raise InvalidBatch(f"the batch at offset {header.base_offset} is corrupt: {error.message}") from error
        if header.base_offset != next_offset:
            raise InvalidBatch(f"a batch starts at offset {header.base_offset}, but the log ends at {next_offset}")
        if header.leader_epoch > epoch:
            return position
        if header.leader_epoch < last_epoch:
            raise InvalidBatch(f"a batch of epoch {header.leader_epoch} follows one of epoch {last_epoch}")
        next_offset, last_epoch = header.last_offset + 1, header.leader_epoch
        position += header.size
    return position


def read_control_records(data: Buffer) -> Iterator[tuple[int, Record]]:
    """The control records in these batches, with their offsets."""
    for position, header in wire.iterate_batches(data):
        if header.is_control:
            yield from _control_records(data, position)


def load_voters(history: VoterHistory, log: RaftLog) -> None:
    """Reads voters and kraft.version anew, from the latest snapshot and the log behind it."""
    history.clear()
    offset = log.start_offset
    latest = log.latest_snapshot
    if latest is not None:
        offset = max(offset, latest.end_offset)
        note_voters(history, _snapshot_records(log, latest))
    while offset < log.end_offset:
        data = log.read(offset, _READ_BYTES)
        note_voters(history, read_control_records(data))
        offset = _end_offset(data)


def note_voters(history: VoterHistory, records: Iterator[tuple[int, Record]]) -> None:
    for offset, record in records:
        if isinstance(record, raft.VotersRecord):
            history.add_voters(offset, VoterSet.from_record(record))
        elif isinstance(record, raft.KRaftVersionRecord):
            history.add_kraft_version(offset, record.k_raft_version)


def _snapshot_records(log: RaftLog, snapshot_id: SnapshotId) -> Iterator[tuple[int, Record]]:
    """The records of its leading control batch; in the log they would be below the snapshot's end."""
    head = log.read_snapshot(snapshot_id, 0, _READ_BYTES)
    at = -1 if snapshot_id == FIRST_SNAPSHOT else snapshot_id.end_offset - 1
    for position, header in wire.iterate_batches(head):
        if header.is_control:
            yield from ((at, record) for _, record in _control_records(head, position))
        break


def _end_offset(data: Buffer) -> int:
    headers = [header for _, header in wire.iterate_batches(data)]
    if not headers:
        raise InvalidBatch("the log has no whole batch where one is expected")
    return headers[-1].last_offset + 1


def _control_records(data: Buffer, position: int) -> Iterator[tuple[int, Record]]:
    try:
        for framed in wire.decode_records(data, position):
            yield framed.offset, decode_control_record(framed)
    except KafkaError as error:
        raise InvalidBatch(f"a control batch cannot be read: {error.message}") from error


def decode_control_record(framed: wire.Record) -> Record:
    try:
        _, code = _CONTROL_KEY.unpack(framed.key or b"")
        (version,) = _CONTROL_VALUE_VERSION.unpack_from(framed.value or b"")
        return CONTROL_TYPES[code].decode(framed.value or b"", version)
    except (struct.error, DecodeError, KeyError) as error:
        raise InvalidBatch(f"a control record is unknown: {error!r}") from error
