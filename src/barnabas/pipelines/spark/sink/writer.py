"""One task's rows to the partitions they belong to: placed, encoded, numbered and sent, an Arrow batch at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from barnabas.client.batch_sender import BatchSender
from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.sink.batches import Columns, Records, encode_records, field_bytes, record_batch
from barnabas.pipelines.spark.sink.columns import ANY_PARTITION, BadRow, Rows
from barnabas.pipelines.spark.sink.digest import digest, topic_number
from barnabas.pipelines.spark.sink.link import SinkLink
from barnabas.pipelines.spark.sink.messages import Digest
from barnabas.pipelines.spark.sink.murmur2 import partitions_of
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.wire.batch import HEADER_BYTES

Numbers = npt.NDArray[np.int64]


class TaskWriter:
    """`announce` is told of partitions before the first batch for them is sent; keyless rows begin at partition
    `first`, so that tasks spread out."""

    def __init__(
        self,
        link: SinkLink,
        options: SinkOptions,
        sender: BatchSender,
        *,
        announce: Callable[[list[TopicPartition]], None] | None = None,
        first: int = 0,
    ) -> None:
        self._link = link
        self._options = options
        self._announce = announce
        self._announced: set[TopicPartition] = set()
        self._sticky_bytes = first * options.batch_bytes
        self._sender = sender

    def write(self, rows: Rows) -> None:
        owners, numbers = self._place(rows)
        counts = np.bincount(numbers, minlength=len(owners))
        now_ms = time.time_ns() // 1_000_000
        columns, times = rows.columns, rows.times_ms
        if times is not None:
            times = np.where(times < 0, now_ms, times)
        if int(counts.max()) < len(rows):
            order = np.argsort(numbers.astype(narrow(len(owners))), kind="stable")
            columns, times = columns.take(order), None if times is None else times[order]
        self._announce_new([owners[index] for index in np.flatnonzero(counts).tolist()])
        batch_bytes = min([self._options.batch_bytes, *map(self._batch_bytes_max, rows.topics)])
        for number, records in encode_records(columns, np.cumsum(counts), batch_bytes, times):
            self._send(owners[number], records, now_ms)
        self._sender.push()

    def flush(self) -> None:
        self._sender.flush()

    def _place(self, rows: Rows) -> tuple[list[TopicPartition], Numbers]:
        """All partitions of the topics that occur, and for each row the number of its partition in that list."""
        owners: list[TopicPartition] = []
        numbers = np.zeros(len(rows), np.int64)
        for code, topic in enumerate(rows.topics):
            which = None if rows.topic_of is None else np.flatnonzero(rows.topic_of == code)
            columns = rows.columns if which is None else rows.columns.take(which)
            asked = rows.partition if rows.partition is None or which is None else rows.partition[which]
            placed = self._place_in(topic, columns, asked) + len(owners)
            numbers[slice(None) if which is None else which] = placed
            owners += [(topic, index) for index in range(self._link.topic(topic).partitions)]
        return owners, numbers

    def _place_in(self, topic: str, columns: Columns, asked: Numbers | None) -> Numbers:
        facts = self._link.topic(topic)
        count = len(columns.value)
        key = None if self._options.ignore_keys else columns.key
        placed = np.full(count, ANY_PARTITION, np.int64) if key is None else partitions_of(key, facts.partitions)
        if key is not None and key.null_count:
            placed[np.asarray(key.is_null(), bool)] = ANY_PARTITION
        if asked is not None:
            placed = np.where(asked >= 0, asked, placed)
            if int(asked.max()) >= facts.partitions:
                wrong = int(asked.max())
                raise BadRow(f"a row asks for partition {wrong} of {topic}, which has {facts.partitions}")
        free = np.flatnonzero(placed == ANY_PARTITION)
        if len(free):
            sizes = field_bytes(columns.key) + field_bytes(columns.value)
            placed[free] = self._sticky(sizes[free], facts.writable)
        return placed

    def _sticky(self, sizes: Numbers, writable: tuple[int, ...]) -> Numbers:
        """Rows nobody placed fill a batch of one partition, and then one of the next."""
        filled = self._sticky_bytes + np.cumsum(sizes)
        self._sticky_bytes = int(filled[-1])
        return np.array(writable, np.int64)[filled // self._options.batch_bytes % len(writable)]

    def _announce_new(self, owners: list[TopicPartition]) -> None:
        new = [owner for owner in owners if owner not in self._announced]
        if new and self._announce is not None:
            self._announce(new)
        self._announced.update(new)

    def _batch_bytes_max(self, topic: str) -> int:
        return max(self._link.topic(topic).max_message_bytes - HEADER_BYTES, 1)

    def _send(self, owner: TopicPartition, records: Records, now_ms: int) -> None:
        limit = self._options.request_bytes_max
        if len(records.payload) > limit and records.rows == 1:
            raise BadRow(f"a row of {len(records.payload)} bytes is larger than kafka.max.request.size, {limit}")
        batch = record_batch(
            records,
            timestamp_ms=now_ms,
            compression=self._options.compression,
            level=self._options.compression_level,
        )
        self._sender.send(*owner, batch)


def digest_of(rows: Rows) -> Digest:
    numbers = np.array([topic_number(topic) for topic in rows.topics], np.uint64)
    topics = np.full(len(rows), numbers[0]) if rows.topic_of is None else numbers[rows.topic_of]
    asked = np.full(len(rows), ANY_PARTITION, np.int64) if rows.partition is None else rows.partition
    return digest(rows.columns, topics, asked)


def narrow(count: int) -> Any:
    """Few enough numbers are sorted by counting."""
    return np.uint16 if count <= 1 << 16 else np.int64
