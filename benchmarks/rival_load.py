"""Records for stream processors, and what must come of them.

A backlog is encoded once and written into an open transaction, so that all of it is there at the moment of its commit:
what is measured from then on is neither the start of a program nor the work of a producer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.partitioning import murmur2
from barnabas.client.records import iterate_records, visible_batches
from barnabas.client.transaction_requests import add_partitions
from barnabas.client.transactions import PreparedTransaction, end_transaction, init_transactions
from barnabas.wire.batch import (
    ATTRIBUTES_OFFSET,
    CRC,
    CRC_OFFSET,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
    append_varint,
)
from barnabas.wire.checksum import crc32c
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITIONS = 4
KEYS = 1_000
BATCH_RECORDS = 5_000
SPAN_MS = 10 * 60_000
MINUTE_MS = 60_000
TRANSACTION_MS = 10 * 60_000
LARGE = "count-large"  # counts of so many keys that state is ten times its cache
LARGE_KEYS = 200_000
LARGE_CACHE_BYTES = 6 << 20  # of about 60 MB


def _varint(number: int) -> bytes:
    made = bytearray()
    append_varint(made, number)
    return bytes(made)


_VARINTS = [_varint(number) for number in range(BATCH_RECORDS)]


def amount(number: int) -> float:
    return number * 7 % 101 / 2


def value_of(number: int, mark: int) -> bytes:
    """80 bytes of JSON; `mark` is the record's id."""
    return b'{"id":%d,"kind":"%b","amount":%.1f,"note":"xxxxxxxxxxxxxxxxxxxxxxxxxxxx"}' % (
        mark,
        b"ab"[number % 2 : number % 2 + 1],
        amount(number),
    )


def batch_of(rows: list[tuple[int, bytes, bytes]]) -> bytearray:
    """Of (timestamp, key, value)."""
    first = rows[0][0]
    parts = [bytes(HEADER_BYTES)]
    for index, (at_ms, key, value) in enumerate(rows):
        later = _VARINTS[at_ms - first] if at_ms - first < BATCH_RECORDS else _varint(at_ms - first)
        sizes = _VARINTS[len(key)], _VARINTS[len(value)]
        body = b"\0%b%b%b%b%b%b\0" % (later, _VARINTS[index], sizes[0], key, sizes[1], value)
        parts += (_VARINTS[len(body)], body)
    batch = bytearray().join(parts)
    last = len(rows) - 1
    HEADER.pack_into(
        batch, 0, 0, len(batch) - LOG_OVERHEAD_BYTES, -1, MAGIC, 0, 0, last, first, rows[-1][0], -1, -1, -1, last + 1
    )
    CRC.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))
    return batch


@dataclass
class Backlog:
    """`first` records that are there from the beginning, and `records` that come at once."""

    first: int
    records: int
    keys: int = KEYS
    base_ms: int = 0
    names: list[bytes] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    encoded: dict[bool, dict[int, list[bytearray]]] = field(default_factory=dict)
    windows: dict[tuple[bytes, int], tuple[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [b"key-%d" % number for number in range(self.keys)]
        self.places = [(murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in self.names]
        self.base_ms = (time.time_ns() // 1_000_000 - SPAN_MS - 2 * MINUTE_MS) // MINUTE_MS * MINUTE_MS
        for bulk, numbers in ((False, range(self.first)), (True, range(self.first, self.first + self.records))):
            waiting: list[list[tuple[int, bytes, bytes]]] = [[] for _ in range(PARTITIONS)]
            batches: dict[int, list[bytearray]] = {partition: [] for partition in range(PARTITIONS)}
            for number in numbers:
                at_ms, key = self.time_of(number), self.names[number % self.keys]
                rows = waiting[partition := self.places[number % self.keys]]
                rows.append((at_ms, key, value_of(number, number)))
                if len(rows) == BATCH_RECORDS:
                    batches[partition].append(batch_of(rows))
                    rows.clear()
                if self.keys == KEYS:
                    place = (key, at_ms // MINUTE_MS * MINUTE_MS)
                    count, total = self.windows.get(place, (0, 0.0))
                    self.windows[place] = (count + 1, total + amount(number))
            for partition, rows in enumerate(waiting):
                if rows:
                    batches[partition].append(batch_of(rows))
            self.encoded[bulk] = batches

    @property
    def total(self) -> int:
        return self.first + self.records

    def time_of(self, number: int) -> int:
        return self.base_ms + number * SPAN_MS // self.total

    def write_first(self, cluster: Cluster, topic: str) -> None:
        for partition, batches in self.encoded[False].items():
            for batch in batches:
                produce(cluster, topic, partition, batch)

    def write_open(self, cluster: Cluster, topic: str) -> PreparedTransaction:
        """All that comes at once, in a transaction that is still open."""
        prepared = init_transactions(cluster, f"backlog-{os.urandom(4).hex()}", timeout_ms=TRANSACTION_MS)
        add_partitions(cluster, prepared, [(topic, partition) for partition in range(PARTITIONS)])
        for partition, batches in self.encoded[True].items():
            sequence = 0
            for batch in batches:
                header = list(HEADER.unpack_from(batch))
                header[5], header[9:12] = TRANSACTIONAL_FLAG, [*prepared[1:], sequence]
                HEADER.pack_into(batch, 0, *header)
                CRC.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))
                produce(cluster, topic, partition, batch, prepared.transactional_id)
                sequence += header[12]
        return prepared

    def write_table(self, cluster: Cluster, topic: str) -> None:
        """A row for each key, older than all records."""
        for partition in range(PARTITIONS):
            rows = [
                (self.base_ms - MINUTE_MS, key, b'{"name":"name of %b"}' % key)
                for key, place in zip(self.names[:KEYS], self.places[:KEYS], strict=True)
                if place == partition
            ]
            produce(cluster, topic, partition, batch_of(rows))

    def expected(self, workload: str, total: int) -> int | None:
        """How many results so many records have; None where that is up to the processor."""
        if workload == "filter":
            return sum(amount(number) > 25 for number in range(101)) * (total // 101) + sum(
                amount(number) > 25 for number in range(total // 101 * 101, total)
            )
        return total if workload == "join" else None


def produce(
    cluster: Cluster, topic: str, partition: int, batch: bytearray, transactional_id: str | None = None
) -> None:
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = cluster.ask_leader(topic, partition, request, version=11)
    if code := answer.responses[0].partition_responses[0].error_code:
        raise RuntimeError(f"the backlog can't be written: error {code}")


def commit(cluster: Cluster, prepared: PreparedTransaction) -> None:
    end_transaction(cluster, prepared, commit=True)


class Results:
    """What is committed in the topic of results: how far it reaches, and, once it is read, what it says."""

    def __init__(self, cluster: Cluster, workload: str, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._workload = workload
        self._fetcher = Fetcher(
            cluster,
            FetchSettings(isolation="read_committed", max_wait_ms=50, max_bytes=64 << 20, partition_max_bytes=16 << 20),
        )
        self._fetcher.assign({(topic, partition): 0 for partition in range(PARTITIONS)})
        self.count = 0
        self.ids: dict[int, Any] = {}
        self.counts: dict[bytes, int] = {}
        self.windows: dict[tuple[bytes, int], tuple[int, float]] = {}

    def ends(self) -> tuple[int, ...]:
        wanted = {(self._topic, partition): -1 for partition in range(PARTITIONS)}
        found = self._cluster.list_offsets(wanted, isolation="read_committed")
        return tuple(found[self._topic, partition].offset for partition in range(PARTITIONS))

    def read(self, *, closely: bool) -> None:
        """Everything up to now. Not `closely`: only how many there are, where each record has a result of its own."""
        ends = self.ends()
        while any(self._fetcher.positions[self._topic, partition] < ends[partition] for partition in range(PARTITIONS)):
            for fetched in self._fetcher.poll(1_000):
                if not closely and self._workload in ("filter", "join"):
                    self.count += sum(batch.header.records_count for batch in visible_batches(fetched))
                    continue
                for record in iterate_records(fetched, check_crcs=False):
                    self.count += 1
                    self._take(record.key or b"", record.value or b"")

    def _take(self, key: bytes, value: bytes) -> None:
        if self._workload in ("count", LARGE):
            self.counts[key] = max(int(value), self.counts.get(key, 0))
            return
        found = json.loads(value)
        if self._workload == "average":
            key, start = (key, found["start"]) if "start" in found else (key[:-8], int.from_bytes(key[-8:], "big"))
            if found["n"] > self.windows.get((key, start), (0, 0.0))[0]:
                self.windows[key, start] = (found["n"], found["average"])
        else:
            self.ids[found.pop("id")] = found

    def complete(self, backlog: Backlog, total: int, *, closely: bool) -> bool:
        """Whether all is there; raises if something is that must not be."""
        expected = backlog.expected(self._workload, total)
        if expected is not None:
            if self.count > expected:
                raise RuntimeError(f"{self.count} results instead of {expected}")
            if closely and self.count == expected:
                self._check(total)
            return self.count == expected
        if self._workload in ("count", LARGE):
            each, more = divmod(total, backlog.keys)
            wanted = {key: each + (number < more) for number, key in enumerate(backlog.names) if each or number < more}
            return self.counts == wanted
        if total < backlog.total:
            return sum(count for count, _ in self.windows.values()) == total
        return self.windows.keys() == backlog.windows.keys() and all(
            found == (count, mean) or (found[0] == count and abs(found[1] - mean) < 1e-9)
            for found, count, mean in (
                (self.windows[place], count, total / count) for place, (count, total) in backlog.windows.items()
            )
        )

    def _check(self, total: int) -> None:
        def right(number: int) -> Any:
            if self._workload == "filter":
                return {"twice": amount(number) * 2} if amount(number) > 25 else None
            return {"amount": amount(number), "name": f"name of key-{number % KEYS}"}

        for number in range(total):
            if self.ids.get(number) != right(number):
                raise RuntimeError(f"record {number} has the result {self.ids.get(number)} instead of {right(number)}")

    def close(self) -> None:
        self._fetcher.close()


def until(holds: Callable[[], bool], what: str, limit_s: float) -> None:
    ends = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"{what} did not come true in {limit_s:.0f} s")
        time.sleep(0.05)
