"""Records as files of JSON, Avro or Parquet, under the settings of Confluent's S3, HDFS, GCS and Azure sinks.

    TOPICS.DIR/TOPIC/FOLDER/TOPIC+PARTITION+FIRST_OFFSET.EXTENSION

All files of a topic's partition are closed together: after `flush.size` records, when the schema changes, when the
records' times have passed `rotate.interval.ms`, or when the clock has passed `rotate.interval.ms` or
`rotate.schedule.interval.ms`. Records that wait for more are not committed: they are read again in a later turn.

Exactly once, on stores that cannot rename or create exclusively too:

- A turn decides where its files end, and tells the group this offset beside the token of its position, under the epoch
  of its task. Only then it writes. A turn of a former owner of the task cannot announce any more.
- A turn that finds an announced offset reads up to it and closes all files there. So it writes the same files with the
  same records as the turn that was lost, and it does not matter which of the two writes a file last.
- `TOPICS.DIR/.barnabas/CONNECTOR/TOPIC+PARTITION.json` names the files of an announced turn. If all of them are there,
  the next turn goes on behind them; if not, it deletes those that are there: it may have other settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from barnabas.pipelines.connect.config import Definition, Setting, at_least, not_empty, one_of
from barnabas.pipelines.connect.connector import Settings, SinkConnector, TopicPartition, token_of
from barnabas.pipelines.connect.connectors.storage.formats import FORMAT_SETTINGS, make_format
from barnabas.pipelines.connect.connectors.storage.partitioners import (
    PARTITIONER_SETTINGS,
    make_partitioner,
    now_ms,
)
from barnabas.pipelines.connect.connectors.storage.stores import STORE_SETTINGS, check_place, open_store
from barnabas.pipelines.connect.data.columns import SinkColumns
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import Schema
from barnabas.pipelines.connect.errors import DataError

JOURNAL = ".barnabas"


@dataclass(slots=True)
class OpenFile:
    path: str
    schema: Schema | None
    values: list[Any] = field(default_factory=list)  # of records, and Arrow tables of many of them


@dataclass(slots=True)
class Writer:
    """The files of one partition of a topic."""

    open: dict[tuple[str, str], OpenFile] = field(default_factory=dict)  # by topic and folder
    closed: list[OpenFile] = field(default_factory=list)
    records: int = 0
    first_offset: int = 0
    first_ms: int = 0  # of the first record's time

    def rotate(self) -> None:
        self.closed += self.open.values()
        self.open = {}
        self.records = 0


class FilesSink(SinkConnector):
    doc = "Records as files in a directory or an object store."
    fenced = True
    definition = Definition(
        [
            *STORE_SETTINGS,
            Setting("format.class", "STRING", "JsonFormat", doc="JsonFormat, AvroFormat, ParquetFormat, "
                    "ByteArrayFormat or StringFormat.", group="Storage"),
            Setting("topics.dir", "STRING", "topics", doc="The folder of all topics.", group="Storage"),
            Setting("flush.size", "INT", doc="How many records of a partition go into its files.", check=at_least(1),
                    group="Connector"),
            Setting("rotate.interval.ms", "LONG", -1, doc="How much time of a partition goes into its files; -1 for "
                    "any.", group="Connector"),
            Setting("rotate.schedule.interval.ms", "LONG", -1, "MEDIUM", "Files are closed when the clock passes a "
                    "multiple of it; -1 for never.", group="Connector"),
            Setting("schema.compatibility", "STRING", "NONE", doc="NONE: another schema begins another file.",
                    check=one_of("NONE"), group="Connector"),
            Setting("behavior.on.null.values", "STRING", "fail", "LOW", "fail or ignore.", one_of("fail", "ignore"),
                    "Connector"),
            Setting("file.delim", "STRING", "+", "LOW", "Between the parts of a file's name.", not_empty, "Storage"),
            Setting("filename.offset.zero.pad.width", "INT", 10, "LOW", "Digits of the offset.", at_least(0),
                    "Storage"),
            *FORMAT_SETTINGS,
            *PARTITIONER_SETTINGS,
        ]
    )  # fmt: skip

    def configure(self) -> None:
        check_place(self.values)
        self._format = make_format(self.values["format.class"], self.values)
        self._partitioner = make_partitioner(self.values)
        self._size = self.values["flush.size"]
        self._interval_ms = self.values["rotate.interval.ms"]
        self._schedule_ms = self.values["rotate.schedule.interval.ms"]
        self._writers: dict[TopicPartition, Writer] = {}
        self._tokens: dict[TopicPartition, str] = {}
        self._ends: dict[TopicPartition, int] = {}  # of the closed files, announced
        self._begun: set[TopicPartition] = set()  # partitions with a bound that is not reached
        self._closed_any = False
        by_partition = self._partitioner.column_folder(0) is not None
        self.takes_columns = self._format.takes_tables and by_partition and self._interval_ms <= 0

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        return [dict(settings)] * tasks_max

    def open(self) -> None:
        self._store = open_store(self.values)

    # Records to files.

    @property
    def unfinished(self) -> bool:
        """As long as no file is full, a turn that ended would have read for nothing; and what was announced has to be
        read to its end."""
        return bool(self._begun) or (not self._closed_any and any(writer.records for writer in self._writers.values()))

    def put(self, records: Sequence[Record]) -> None:
        for record in records:
            if self.bounds and self._is_behind(record):
                continue
            if record.value is None:
                if self.values["behavior.on.null.values"] == "ignore":
                    continue
                raise DataError(f"a record of {record.topic} has no value, and behavior.on.null.values is fail")
            self._add(record)

    def _is_behind(self, record: Record) -> bool:
        """Whether the record is behind what was announced; it comes again then."""
        assert record.original is not None
        topic, partition, offset = record.original
        return self._passes((topic, partition), offset)

    def _passes(self, tp: TopicPartition, offset: int) -> bool:
        bound = self.bounds.get(tp, NEVER)
        if offset + 1 >= bound:
            self._begun.discard(tp)
        return offset >= bound

    def _add(self, record: Record) -> None:
        assert record.original is not None
        topic, partition, offset = record.original
        writer = self._writers.get((topic, partition))
        if writer is None:
            writer = self._writers[topic, partition] = Writer()
        folder = self._partitioner.folder(record)
        at = self._partitioner.time_ms(record) if self._interval_ms > 0 else 0
        found = writer.open.get((record.topic, folder))
        if writer.records and self._must_rotate(writer, record, found, at):
            writer.rotate()
            self._closed_any, found = True, None
        if not writer.records:
            writer.first_offset, writer.first_ms = offset, at or record.timestamp or now_ms()
        if found is None:
            path = self._path(record.topic, folder, partition, offset)
            found = writer.open[record.topic, folder] = OpenFile(path, record.value_schema)
        found.values.append(record.value)
        writer.records += 1
        if writer.records >= self._size:
            writer.rotate()
            self._closed_any = True

    def put_columns(self, columns: SinkColumns) -> None:
        topic, partition = columns.topic, columns.partition
        count = len(columns)
        if (topic, partition) in self.bounds and count:
            self._passes((topic, partition), int(columns.offsets[-1]))
            count = int(np.searchsorted(columns.offsets, self.bounds[topic, partition]))
        writer = self._writers.setdefault((topic, partition), Writer())
        folder = self._partitioner.column_folder(partition)
        assert folder is not None
        at = 0
        while at < count:
            found = writer.open.get((topic, folder))
            if found is not None and found.schema is not columns.schema and found.schema != columns.schema:
                writer.rotate()
                self._closed_any, found = True, None
            if not writer.records:
                writer.first_offset = int(columns.offsets[at])
                writer.first_ms = max(int(columns.times_ms[at]), 0) or now_ms()
            if found is None:
                path = self._path(topic, folder, partition, int(columns.offsets[at]))
                found = writer.open[topic, folder] = OpenFile(path, columns.schema)
            rows = min(count - at, self._size - writer.records)
            found.values.append(columns.table.slice(at, rows))
            writer.records += rows
            at += rows
            if writer.records >= self._size:
                writer.rotate()
                self._closed_any = True

    def _must_rotate(self, writer: Writer, record: Record, found: OpenFile | None, at: int) -> bool:
        if found is not None and found.schema is not record.value_schema and found.schema != record.value_schema:
            return True
        return bool(0 < self._interval_ms <= at - writer.first_ms)

    def _path(self, topic: str, folder: str, partition: int, offset: int) -> str:
        delimiter = self.values["file.delim"]
        number = str(offset).rjust(self.values["filename.offset.zero.pad.width"], "0")
        name = f"{topic}{delimiter}{partition}{delimiter}{number}{self._format.extension}"
        return "/".join(part for part in (self.values["topics.dir"], topic, folder, name) if part)

    # Files to the store.

    def announce(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, str]:
        now = now_ms()
        new = {}
        for tp, writer in self._writers.items():
            bound = self.bounds.get(tp)
            if writer.records and (bound is not None or self._ends_at(writer) <= now):
                writer.rotate()
            if not writer.closed:
                continue
            end = positions[tp] if bound is None else bound
            self._ends[tp] = writer.first_offset if writer.records else end
            if self._ends[tp] != bound:
                new[tp] = str(self._ends[tp])
        return new

    def flush(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        now = now_ms()
        held = {tp: bound for tp, bound in self.bounds.items() if positions[tp] > bound}
        for tp, writer in self._writers.items():
            if writer.closed:
                self._publish(tp, writer, self._ends[tp])
            if writer.records:
                held[tp] = writer.first_offset
        waiting = [writer for writer in self._writers.values() if writer.records]
        self.wait_records = min((self._size - writer.records for writer in waiting), default=0)
        ends = [end for end in map(self._ends_at, waiting) if end != NEVER]
        self.wait_ms = max(int(min(ends)) - now, 1) if ends else 0
        if any(tp in held for tp in self.bounds):
            self.wait_records = self.wait_ms = 0  # there is more to read at once
        return held

    def _ends_at(self, writer: Writer) -> float:
        """When the clock closes what is open."""
        ends: list[float] = [NEVER]
        if self._interval_ms > 0:
            ends.append(writer.first_ms + self._interval_ms)
        if self._schedule_ms > 0:
            ends.append((writer.first_ms // self._schedule_ms + 1) * self._schedule_ms)
        return min(ends)

    def _publish(self, tp: TopicPartition, writer: Writer, next_offset: int) -> None:
        paths = [each.path for each in writer.closed]
        entry = {"began_at": self._tokens.get(tp, ""), "next_offset": next_offset, "files": paths}
        self._store.write(self._journal(tp), json.dumps(entry).encode())
        for each in writer.closed:
            self._store.write(each.path, self._format.write(each.schema, each.values))
        writer.closed = []

    # What a former turn has left.

    def _journal(self, tp: TopicPartition) -> str:
        parts = (self.values["topics.dir"], JOURNAL, self.name.replace("/", "_"), f"{tp[0]}+{tp[1]}.json")
        return "/".join(part for part in parts if part)

    def positions(self, group: Mapping[TopicPartition, tuple[int, str]]) -> Mapping[TopicPartition, int]:
        known: dict[TopicPartition, int] = {}
        self.bounds = bounds = {}
        for tp in self.partitions:
            at, metadata = group.get(tp, (-1, ""))
            self._tokens[tp], words = token_of(at, metadata) if tp in group else ("", "")
            if (found := self._resume(tp, at)) is not None:
                known[tp] = found
            if words.isdecimal() and int(words) > known.get(tp, at):
                bounds[tp] = int(words)
        self._begun = set(bounds)
        return known

    def _resume(self, tp: TopicPartition, at: int) -> int | None:
        data = self._store.read(self._journal(tp))
        entry = json.loads(data) if data else None
        if entry is None or entry["began_at"] != self._tokens[tp] or entry["next_offset"] <= at:
            return None
        if all(self._store.exists(path) for path in entry["files"]):
            return int(entry["next_offset"])
        for path in entry["files"]:
            self._store.delete(path)
        return None

    def forget(self) -> None:
        self.open()
        for found in self._store.list("/".join(self._journal(("", 0)).split("/")[:-1])):
            self._store.delete(found.path)


NEVER = float("inf")
