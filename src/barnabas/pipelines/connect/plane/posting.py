"""A source's records to their topics in whole record batches, which are built from columns.

Records with headers or with a partition of their own, and a few alone, go the usual way of the producer, one by one. In
each partition they keep their order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.client.cluster import Cluster
from barnabas.client.metadata import NO_LEADER
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.pipelines.spark.sink.batches import Columns, encode_records, field_bytes, record_batch
from barnabas.pipelines.spark.sink.link import max_message_bytes
from barnabas.pipelines.spark.sink.murmur2 import partitions_of
from barnabas.wire.batch import HEADER_BYTES
from barnabas.wire.compression import Compression

FEW = 50
BATCH_BYTES = 256 * 1024
Post = tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None, int | None]


class Posting:
    """`prepare` is called with a topic before its first record is sent."""

    def __init__(
        self,
        cluster: Cluster,
        producer: Producer,
        settings: ProducerSettings,
        prepare: Callable[[Cluster, str], None],
    ) -> None:
        self._prepare = prepare
        self._prepared: set[str] = set()
        self._cluster, self._producer, self._settings = cluster, producer, settings
        self._compression = Compression[settings.compression.upper()]
        self._sizes: dict[str, int] = {}
        self._filled_bytes = random.randrange(1 << 20) * BATCH_BYTES  # so that turns do not all begin at partition 0

    def send(self, posts: Sequence[Post]) -> None:
        """Topic, key, value, headers, partition and timestamp of each."""
        by_topic: dict[str, list[Post]] = {}
        for post in posts:
            by_topic.setdefault(post[0], []).append(post)
        for topic, those in by_topic.items():
            self._begin(topic)
            if len(those) < FEW or not self.takes(topic) or any(each[3] or each[4] is not None for each in those):
                for _, key, value, headers, partition, timestamp in those:
                    self._producer.send(topic, value, key, headers, partition, timestamp)
                continue
            keys = [each[1] for each in those]
            key_column = pa.array(keys, pa.binary()) if any(key is not None for key in keys) else None
            times = [each[5] for each in those]
            timed = any(each is not None for each in times)
            now_ms = time.time_ns() // 1_000_000
            times_ms = np.array([now_ms if each is None else each for each in times], np.int64) if timed else None
            self.send_columns(topic, key_column, pa.array([each[2] for each in those], pa.binary()), times_ms)

    def _begin(self, topic: str) -> None:
        if topic not in self._prepared:
            self._prepared.add(topic)
            self._prepare(self._cluster, topic)

    def takes(self, topic: str) -> bool:
        return self._producer.takes_batches(topic) and not self._settings.round_robin

    def send_columns(self, topic: str, keys: Any, values: Any, times_ms: Any = None) -> None:
        self._begin(topic)
        known = self._producer.partitions_for(topic)
        columns = Columns(keys, values, None)
        batch_bytes = self._batch_bytes(topic)
        led = [index for index, each in known.partitions.items() if each.leader != NO_LEADER] or list(known.partitions)
        placed = self._placed(columns, len(known.partitions), np.array(led, np.int64), batch_bytes)
        counts = np.bincount(placed, minlength=len(known.partitions))
        if int(counts.max()) < len(values):
            order = np.argsort(placed, kind="stable")
            columns, times_ms = columns.take(order), None if times_ms is None else times_ms[order]
        now_ms = time.time_ns() // 1_000_000
        for partition, records in encode_records(columns, np.cumsum(counts), batch_bytes, times_ms):
            batch = record_batch(
                records,
                timestamp_ms=now_ms,
                compression=self._compression,
                level=self._settings.compression_level,
            )
            self._producer.send_batch(topic, partition, batch)

    def _placed(self, columns: Columns, partitions: int, led: Any, batch_bytes: int) -> Any:
        """By the key, as every client does it; records without one fill a batch of one partition after the other."""
        count = len(columns.value)
        free = np.ones(count, bool)
        placed = np.zeros(count, np.int64)
        if columns.key is not None and not self._settings.ignore_keys:
            placed = partitions_of(columns.key, partitions)
            free = np.asarray(columns.key.is_null(), bool)
        if free.any():
            filled = self._filled_bytes + np.cumsum(field_bytes(columns.value)[free])
            self._filled_bytes = int(filled[-1])
            placed[free] = led[filled // batch_bytes % len(led)]
        return placed

    def _batch_bytes(self, topic: str) -> int:
        if topic not in self._sizes:
            most = min(max_message_bytes(self._cluster, topic), self._settings.max_request_size) - HEADER_BYTES
            self._sizes[topic] = max(min(max(self._settings.batch_size, BATCH_BYTES), most), 1)
        return self._sizes[topic]
