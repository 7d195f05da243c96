"""Marks: which batch a task of an exactly-once sink has committed last.

A mark is a record of a compacted topic, written in the transaction whose rows it tells of: either both are there or
neither is. Its key is the transactional id, its value the number of the batch plus one, and the batch's trace. All are
in partition 0, whatever partitions are added.

Readers of committed records stop at the first open transaction, whoever's it is. So marks are read as they lie in the
log, and a transaction's marker decides on its marks. Who has begun under an id finds all its former transactions ended.

A process reads the topic from its beginning once, and from then on what is new. Compaction keeps that small.
"""

from __future__ import annotations

import time

from barnabas.client.admin.topics import create_topic
from barnabas.client.cluster import UNKNOWN, Cluster
from barnabas.client.errors import Refused, TimedOut, known_code
from barnabas.client.offsets import CommittedOffset
from barnabas.client.records import RecordBatch, iterate_batches, marker_type
from barnabas.wire.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, Record, build_batch, compiled_records
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Buffer

PARTITION = 0
EARLIEST, LATEST = -2, -1
COMMIT_MARKER = 1
PATIENCE_S = 60.0
LOOK_S = 0.02
FETCH_BYTES = 4 << 20
FETCH_WAIT_MS = 100
FETCH_VERSION_MAX = 12  # from 13 on, topics are asked for by their ids
CONFIGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(30 * 24 * 3600 * 1000),  # after a month without a batch, the marks of a query go
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}


def mark_batch(transactional_id: str, mark: CommittedOffset) -> bytearray:
    value = f"{mark.offset} {mark.metadata}".encode()
    record = Record(0, time.time_ns() // 1_000_000, transactional_id.encode(), value, ())
    return build_batch([record])


class Marks:
    """As this process knows them."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._at = topic, PARTITION
        self._there = False
        self._forget()

    def last(self, transactional_id: str) -> CommittedOffset | None:
        """Waits until no open transaction may change it. None if the id never committed one."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self._read()
            if not any(transactional_id in marks for marks in self._open.values()):
                return self._committed.get(transactional_id)
            if time.monotonic() > deadline:
                raise TimedOut(f"The transaction of {transactional_id} has not ended within {PATIENCE_S:.0f} s.")
            time.sleep(LOOK_S)

    def make_sure(self) -> None:
        """That the topic is there."""
        if not self._there and not self._exist():
            self._create()
        self._there = True

    def _create(self) -> None:
        try:
            create_topic(self._cluster, self._at[0], partitions=1, configs=CONFIGS)
        except Refused as refusal:
            if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise Refused(refusal.code, f"Topic {self._at[0]} cannot be created: {refusal.message}") from None

    def _exist(self) -> bool:
        found = self._cluster.metadata([self._at[0]]).topics[self._at[0]]
        if found.error and found.error not in (*UNKNOWN, ErrorCode.LEADER_NOT_AVAILABLE):
            raise Refused(found.error, f"Topic {self._at[0]} cannot be read")
        return bool(found.partitions)

    def _forget(self) -> None:
        self._position: int | None = None
        self._committed: dict[str, CommittedOffset] = {}
        self._open: dict[int, dict[str, CommittedOffset]] = {}  # by producer

    def _read(self) -> None:
        if self._position is None:
            self._there = self._exist()
            if not self._there:
                return
        # Not the end that a fetch tells: of a new leader it may lag behind what is committed, which this question waits
        # for.
        end = self._offset(LATEST)
        if self._position is None or self._position > end:  # at first, or the topic was deleted and made again
            self._forget()
            self._position = self._offset(EARLIEST)
        while self._position < end:
            records = self._fetch(self._position)
            if records is None:  # it begins later by now: what was deleted is forgotten here too
                self._forget()
                self._position = self._offset(EARLIEST)
                continue
            for batch in iterate_batches(records, self._at[0]):
                if batch.header.last_offset >= self._position:
                    self._take(records, batch)
                    self._position = batch.header.last_offset + 1

    def _fetch(self, position: int) -> Buffer | None:
        """None if there is no such offset any more."""
        from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

        asked = FetchPartition(partition=PARTITION, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
        topic = FetchTopic(topic=self._at[0], partitions=[asked])
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic])
        answer = self._cluster.ask_leader(*self._at, request, version=FETCH_VERSION_MAX)
        (found,) = answer.responses[0].partitions
        code = known_code(found.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        if code:
            raise Refused(code, f"Topic {self._at[0]} cannot be read")
        return found.records or b""

    def _take(self, records: Buffer, batch: RecordBatch) -> None:
        producer = batch.header.producer_id
        if batch.header.attributes & CONTROL_FLAG:
            marks = self._open.pop(producer, {})
            if marker_type(records, batch) == COMMIT_MARKER:
                self._committed |= marks
        elif batch.header.attributes & TRANSACTIONAL_FLAG:
            marks = self._open.setdefault(producer, {})
            for record in compiled_records(records, batch.position):
                offset, _, metadata = bytes(record.value or b"").decode(errors="replace").partition(" ")
                if offset.isdecimal():  # else somebody else has written here
                    marks[bytes(record.key or b"").decode(errors="replace")] = CommittedOffset(int(offset), metadata)

    def _offset(self, which: int) -> int:
        return self._cluster.list_offsets({self._at: which})[self._at].offset
