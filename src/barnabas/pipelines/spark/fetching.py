"""A task: the records of its ranges, fetched raw from their leaders and decoded to Arrow.

Leaders, connections and the next request, which is on its way while the last answer is decoded, are the client's
(`barnabas.client.fetcher`). What is decided here is how long a task waits, and what is told when records are gone. A
range ends when the position has passed its end, not at a record: the last offsets may be control records, or have been
compacted away.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.client.errors import OffsetOutOfRange, TimedOut
from barnabas.client.fetcher import Fetched, Fetcher, FetchRange, FetchSettings
from barnabas.client.metadata import TopicPartition, partition_name
from barnabas.pipelines.spark.clients import clients
from barnabas.pipelines.spark.data_loss import DataLoss
from barnabas.pipelines.spark.decoding import Decoder, scan
from barnabas.pipelines.spark.isolation import committed
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    import pyarrow as pa

GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})
PARTITION_FETCH_BYTES = 2 * 1024 * 1024  # larger than a consumer's: a task has few partitions
# A new leader may not know for a moment what is committed, and a broker not of a topic.
PATIENCE_S = 3.0
LOOK_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """What a consumer's properties and the source's options say about reading."""

    properties: Mapping[str, str] = field(repr=False)
    fetch: FetchSettings
    check_crcs: bool
    poll_timeout_ms: int
    fail_on_data_loss: bool

    @classmethod
    def of(cls, properties: Mapping[str, str], *, poll_timeout_ms: int, fail_on_data_loss: bool) -> TaskSettings:
        return cls(
            properties=properties,
            fetch=FetchSettings.from_properties(
                properties, partition_max_bytes=PARTITION_FETCH_BYTES, unknown_patience_ms=poll_timeout_ms
            ),
            check_crcs=properties.get("check.crcs", "true").lower() != "false",
            poll_timeout_ms=poll_timeout_ms,
            fail_on_data_loss=fail_on_data_loss,
        )


def task_settings(options: SourceOptions) -> TaskSettings:
    return TaskSettings.of(
        options.properties, poll_timeout_ms=options.poll_timeout_ms, fail_on_data_loss=options.fail_on_data_loss
    )


def read_ranges(
    settings: TaskSettings, ranges: Sequence[OffsetRange], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """One range after the other; of several small ones, most are whole in the answer to one request for all."""
    with clients(settings.properties).fetcher(settings.fetch) as fetcher:
        fetcher.assign_ranges(
            FetchRange(one.partition, one.start, one.end, Uuid.parse(one.topic_id) if one.topic_id else ZERO_UUID)
            for one in ranges
        )
        task = Task(fetcher, settings)
        for one in ranges:
            yield from task.read(one, columns)


def decoded_records(fetched: Fetched, decoder: Decoder, end: int, settings: TaskSettings) -> pa.RecordBatch | None:
    batches = scan(fetched.records, fetched.name)
    if settings.fetch.isolation_level:
        batches = committed(fetched.records, batches, fetched.aborted)
    else:
        batches = [batch for batch in batches if not batch.header.is_control]
    return decoder.decode(fetched.records, batches, fetched.fetch_offset, end)


class Task:
    def __init__(self, fetcher: Fetcher, settings: TaskSettings) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self._loss = DataLoss(settings.fail_on_data_loss)
        self._held: dict[TopicPartition, deque[Fetched]] = {}  # of ranges whose turn has not come
        self._progress_at = time.monotonic()

    def read(self, wanted: OffsetRange, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        topic, index = wanted.partition
        decoder = Decoder(topic, index, columns, check_crcs=self._settings.check_crcs)
        self._fetcher.resume([wanted.partition])
        self._progress_at = time.monotonic()
        for fetched in self._fetched(wanted):
            decoded = decoded_records(fetched, decoder, wanted.end, self._settings)
            if decoded is not None:
                yield decoded

    def _fetched(self, wanted: OffsetRange) -> Iterator[Fetched]:
        held = self._held.setdefault(wanted.partition, deque())
        position = self._fetcher.position(wanted.partition)
        while held or position.offset < wanted.end:
            if held:
                self._progress_at = time.monotonic()
                yield held.popleft()
            else:
                self._poll(wanted)

    def _poll(self, wanted: OffsetRange) -> None:
        try:
            answers = self._fetcher.poll(LOOK_MS)
        except OffsetOutOfRange as error:
            self._out_of_range(wanted, error)
            return
        for fetched in answers:
            partition = (fetched.topic, fetched.partition)
            self._held.setdefault(partition, deque()).append(fetched)
            if partition != wanted.partition:
                self._fetcher.pause([partition])
        if not self._held[wanted.partition]:
            self._nothing_came(wanted)

    def _nothing_came(self, wanted: OffsetRange) -> None:
        """The range lies within what is committed, so there have to be records, or later ones, soon."""
        position = self._fetcher.position(wanted.partition)
        waited_s = time.monotonic() - self._progress_at
        name = partition_name(wanted.partition)
        lost = f"offsets {position.offset} to {wanted.end - 1} of {name}"
        if waited_s > PATIENCE_S and position.problem in GONE:
            again = " or created again" if position.problem is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
            position.offset = wanted.end
            self._loss.report(f"{lost} are gone, as the topic was deleted{again}")
        elif waited_s > PATIENCE_S and position.ends_at < wanted.end and not position.problem:
            position.offset = wanted.end
            self._loss.report(f"{lost} are not there: it ends at offset {position.ends_at}")
        elif waited_s > self._settings.poll_timeout_ms / 1000:
            why = position.problem.name if position.problem else self._fetcher.trouble or f"it is at {position.offset}"
            raise TimedOut(f"No records of {name} within {self._settings.poll_timeout_ms} ms: {why}")

    def _out_of_range(self, wanted: OffsetRange, error: OffsetOutOfRange) -> None:
        partition = (error.topic, error.partition)
        position = self._fetcher.position(partition)
        if error.log_start_offset <= position.offset:
            position.ends_at = error.log_end_offset
            if partition == wanted.partition:
                self._nothing_came(wanted)
            return
        lost, begins = position.offset, error.log_start_offset
        resumed = min(begins, position.end)
        self._loss.report(
            f"offsets {lost} to {resumed - 1} of {error.topic}-{error.partition} are gone: it now begins at offset "
            f"{begins}"
        )
        position.offset = resumed
        self._progress_at = time.monotonic()
