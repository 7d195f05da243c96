"""A task that goes on behind its batch: what comes into the same partitions, without a plan of Spark's.

Steps       how far it came: the ends of all partitions after each of its transactions, as text for the mark
ReadingOn   records as they come; or once more those of a step, for a batch that is done again
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from barnabas.client.errors import ClientError
from barnabas.client.fetcher import NO_END, Fetcher, FetchRange
from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.clients import clients
from barnabas.pipelines.spark.decoding import Decoder
from barnabas.pipelines.spark.fetching import decoded_records, read_ranges, task_settings
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    import pyarrow as pa

WAIT_MS = 50  # of a fetch at the broker: no task waits long for one that is under way
GATHER_S = 0.005  # a fetch that was under way brings the first record only; the next one brings the others


@dataclass(frozen=True, slots=True)
class Steps:
    partitions: tuple[TopicPartition, ...]
    ids: Mapping[str, str] = field(default_factory=dict)
    ends: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def at(cls, ranges: Sequence[OffsetRange]) -> Self:
        ids = {one.partition[0]: one.topic_id for one in ranges if one.topic_id}
        return cls(tuple(one.partition for one in ranges), ids)

    def with_step(self, ends: Mapping[TopicPartition, int]) -> Self:
        return replace(self, ends=(*self.ends, tuple(ends[one] for one in self.partitions)))

    @property
    def numbers(self) -> int:
        return len(self.partitions) * len(self.ends)

    def last(self) -> dict[TopicPartition, int]:
        return dict(zip(self.partitions, self.ends[-1], strict=True)) if self.ends else {}

    def __str__(self) -> str:
        if not self.ends:
            return ""
        told = {"partitions": self.partitions, "ids": dict(self.ids), "ends": self.ends}
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self:
        if not text:
            return cls(())
        told = json.loads(text)
        partitions = tuple((str(topic), int(number)) for topic, number in told["partitions"])
        return cls(partitions, told["ids"], tuple(tuple(map(int, one)) for one in told["ends"]))


class ReadingOn:
    """`at` is where reading goes on; what was given lies before it."""

    def __init__(self, options: SourceOptions, columns: Sequence[str], ranges: Sequence[OffsetRange]) -> None:
        self._settings = task_settings(options)
        self._columns = columns
        self.ranges = ranges
        self.at = {one.partition: one.end for one in ranges}
        self._ids = {one.partition: one.topic_id for one in ranges}
        self._decoders: dict[TopicPartition, Decoder] = {}
        self._fetcher: Fetcher | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        return self._settings.properties

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        settings = replace(self._settings.fetch, max_wait_ms=min(WAIT_MS, self._settings.fetch.max_wait_ms))
        with clients(self._settings.properties).fetcher(settings) as self._fetcher:
            self._fetcher.assign_ranges(
                FetchRange(one, at, NO_END, Uuid.parse(self._ids[one]) if self._ids[one] else ZERO_UUID)
                for one, at in self.at.items()
            )
            yield

    def read(self, limit_s: float) -> list[pa.RecordBatch] | None:
        """What came within that time, at once if something is there. None if a partition can't be read on: who plans
        the next batch finds out why."""
        assert self._fetcher is not None
        found: list[pa.RecordBatch] = []
        deadline = time.monotonic() + limit_s
        gathered_until = 0.0
        while (left_s := (gathered_until or deadline) - time.monotonic()) > 0:
            try:
                answers = self._fetcher.poll(max(int(left_s * 1000), 1))
            except ClientError:
                return found or None
            for fetched in answers:
                partition = (fetched.topic, fetched.partition)
                decoder = self._decoders.get(partition)
                if decoder is None:
                    decoder = Decoder(*partition, self._columns, check_crcs=self._settings.check_crcs)
                    self._decoders[partition] = decoder
                decoded = decoded_records(fetched, decoder, fetched.next_offset, self._settings)
                self.at[partition] = fetched.next_offset
                if decoded is not None and decoded.num_rows:
                    found.append(decoded)
            if found and not gathered_until:
                gathered_until = time.monotonic() + GATHER_S
        return found

    def read_to(self, ends: Mapping[TopicPartition, int]) -> Iterator[pa.RecordBatch]:
        """What was read by a former attempt."""
        ranges = [
            OffsetRange(one, at, ends[one], self._ids[one]) for one, at in self.at.items() if ends.get(one, at) > at
        ]
        yield from read_ranges(self._settings, ranges, self._columns)
        self.at |= {one.partition: one.end for one in ranges}
