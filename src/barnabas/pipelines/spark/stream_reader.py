"""`spark.readStream`: where a stream stands, how far the next batch goes, and which tasks read it.

Spark keeps one object of this class per query, in a Python process beside the driver, and asks it in this order:
initialOffset (once per run, more than once before the first batch), latestOffset with the end of the batch that was
done last, partitions with the ends of two batches, and again latestOffset. After a crash it asks for the partitions of
the batch that was not finished first. So the offset given to latestOffset is the one up to which all is processed, and
that is what is committed for the group.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas.client.metadata import TopicPartition, partition_name
from barnabas.pipelines.spark.data_loss import DataLoss
from barnabas.pipelines.spark.draining import is_draining
from barnabas.pipelines.spark.offsets import LAG, LAG_TOTAL, UNPINNED, StreamOffset, nested
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.progress import GroupCommits, wait_for_records
from barnabas.pipelines.spark.ranges import OffsetRange, limited
from barnabas.pipelines.spark.tasks import RangePartition, planned_for_stream, read_task
from barnabas.pipelines.spark.topics import Partitions, Topics

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._starting = options.for_stream()
        self._options = options
        self._columns = tuple(columns)
        self._topics = Topics(options)
        self._commits = GroupCommits(options)
        self._loss = DataLoss(options.fail_on_data_loss)
        self._target: tuple[Partitions, dict[TopicPartition, int]] | None = None  # of a run that ends by itself
        self._latest: dict[TopicPartition, int] = {}
        self._end: StreamOffset | None = None
        self._last_batch_at = float("-inf")

    def initialOffset(self) -> dict[str, Any]:
        return {UNPINNED: True}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Any limit but ReadAllAvailable makes Spark leave the batch to the options, both of them."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        found = self._topics.existing_partitions()
        self._target = (found, self._topics.latest(found.partitions))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        done = StreamOffset.parse(start)
        self._commits.commit(done.offsets)
        if is_draining():
            return start
        found, latest = self._look(done)
        begin, first = self._beginnings(done, found)
        if self._target is None and not first and begin == latest and self._options.idle_wait_ms:
            if not wait_for_records(self._topics.cluster, self._options, latest, found.ids):
                self._latest, self._end = latest, done
                return start
            found, latest = self._look(done)
            begin, first = self._beginnings(done, found)
        for partition, offset in begin.items():
            if latest[partition] < offset:
                self._loss.report(
                    f"{partition_name(partition)} ends at offset {latest[partition]}, and was read up to {offset}"
                )
        ends = latest if isinstance(limit, ReadAllAvailable) else self._within_limits(begin, latest)
        self._latest = latest
        self._end = StreamOffset(ends, {topic: found.ids[topic] for topic, _ in ends if topic in found.ids}, first)
        if not first and dict(done.offsets) == ends:
            return start
        self._last_batch_at = time.monotonic()
        return self._end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Goes into the progress of the query: where topics end, and how many offsets the batch leaves behind."""
        if self._end is None:
            return None
        ends = self._end.offsets
        lag = {partition: max(offset - ends.get(partition, 0), 0) for partition, offset in self._latest.items()}
        return nested(self._latest) | {LAG: nested(lag), LAG_TOTAL: sum(lag.values())}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        done, until = StreamOffset.parse(start), StreamOffset.parse(end)
        begin = {partition: until.begin(done, partition) for partition in until.offsets}
        unknown = self._topics.earliest([partition for partition, offset in begin.items() if offset is None])
        ranges = []
        for partition in sorted(until.offsets):
            offset = begin[partition]
            from_offset = unknown[partition] if offset is None else offset
            topic_id = until.ids.get(partition[0], "")
            ranges.append(OffsetRange(partition, from_offset, until.offsets[partition], topic_id))
        return planned_for_stream(self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._commits.commit(StreamOffset.parse(end).offsets)

    def stop(self) -> None:
        if self._end is not None:
            self._topics.cluster.close()

    def _look(self, done: StreamOffset) -> tuple[Partitions, dict[TopicPartition, int]]:
        if self._target is not None:
            return self._target[0], dict(self._target[1])
        topics = self._topics
        found = topics.partitions_with(done.offsets.keys()) if done.offsets else topics.existing_partitions()
        return found, self._topics.latest(found.partitions)

    def _beginnings(
        self, done: StreamOffset, found: Partitions
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Where each partition is read from, and of that what is new: the first batch's, and new partitions'."""
        now = StreamOffset(dict.fromkeys(found.partitions, 0), found.ids)
        gone = [partition for partition in sorted(done.offsets) if partition not in found.partitions]
        if gone and self._target is None:
            names = ", ".join(map(partition_name, gone))
            self._loss.report(f"{names} {'is' if len(gone) == 1 else 'are'} gone, as the topic was deleted")
        again = sorted({p[0] for p in found.partitions if p in done.offsets and not now.continues(done, p)})
        if again:
            names = ", ".join(again)
            self._loss.report(f"topic {names} was deleted and created again, so its offsets mean other records")
        known = {partition: done.offsets[partition] for partition in found.partitions if now.continues(done, partition)}
        new = found.partitions - known.keys()
        if not new:
            return known, {}
        first = self._topics.earliest(new) if done.offsets else self._topics.starting(self._starting, new)
        for partition, offset in sorted(first.items()):
            if done.offsets and offset > 0 and partition[0] not in again:
                name = partition_name(partition)
                self._loss.report(f"{name} is new and begins at offset {offset}: offsets 0 to {offset - 1} are gone")
        return known | first, first

    def _within_limits(
        self, begin: dict[TopicPartition, int], latest: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        options = self._options
        least = options.min_offsets_per_trigger
        waited_ms = (time.monotonic() - self._last_batch_at) * 1000
        may_wait = least is not None and self._target is None and waited_ms < options.max_trigger_delay_ms
        if may_wait and sum(latest.values()) - sum(begin.values()) < (least or 0):
            return begin
        if options.max_offsets_per_trigger is not None:
            return limited(begin, latest, options.max_offsets_per_trigger)
        return latest
