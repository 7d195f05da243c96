"""Files that a sink has written, back into topics: `TOPIC+PARTITION+OFFSET.EXTENSION` below `topics.dir`.

A folder's files of one partition are read in the order of their offsets. Source partitions are the folders with topic
and partition, source offsets the file that is read, by its first offset, and how far it is read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from barnabas.pipelines.connect.config import Definition, Setting, at_least, not_empty
from barnabas.pipelines.connect.connector import Settings, SourceConnector, offset_key
from barnabas.pipelines.connect.connectors.storage.formats import FORMAT_SETTINGS, Format, format_of_path, make_format
from barnabas.pipelines.connect.connectors.storage.stores import STORE_SETTINGS, check_place, open_store
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import ConfigError, RetriableError


class Part(NamedTuple):
    """A file with what its name tells."""

    folder: str
    topic: str
    partition: int
    start: int
    path: str

    @property
    def place(self) -> dict[str, Any]:
        return {"folder": self.folder, "topic": self.topic, "partition": self.partition}


class FilesSource(SourceConnector):
    doc = "Files of a directory or an object store that a sink has written, back into topics."
    definition = Definition(
        [
            *STORE_SETTINGS,
            Setting("format.class", "STRING", "", doc="Empty: by the names of the files.", group="Storage"),
            Setting("topics.dir", "STRING", "topics", doc="The folder of all topics.", group="Storage"),
            Setting("topics.regex", "STRING", ".*", "MEDIUM", "Topics to read.", group="Connector"),
            Setting("topic.prefix", "STRING", "", "MEDIUM", "Before the names of the topics.", group="Connector"),
            Setting("file.delim", "STRING", "+", "LOW", "Between the parts of a file's name.", not_empty, "Storage"),
            Setting("record.batch.max.size", "INT", 2000, "LOW", "Records of a poll.", at_least(1), "Connector"),
            *FORMAT_SETTINGS,
        ]
    )  # fmt: skip

    def configure(self) -> None:
        check_place(self.values)
        self._format: Format | None = None
        if self.values["format.class"]:
            self._format = make_format(self.values["format.class"], self.values)
        delimiter = re.escape(self.values["file.delim"])
        self._name = re.compile(rf"(?P<topic>.+?){delimiter}(?P<partition>\d+){delimiter}(?P<start>\d+)[^/]*")
        try:
            self._topics = re.compile(self.values["topics.regex"])
        except re.error as error:
            raise ConfigError(f"Invalid regex: {error}", "topics.regex", self.values["topics.regex"]) from None
        self._reading: Iterator[Record] | None = None
        self._look_at = 0.0

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        return [{**settings, "task.count": str(tasks_max)} for _ in range(tasks_max)]

    def has_news(self, offsets: Mapping[str, dict[str, Any]]) -> bool:
        if time.monotonic() < self._look_at:  # listing a store costs more than looking at a local file
            return False
        try:
            self._look_at = time.monotonic() + self.pause_ms / 1000
            self.open()
            return any(True for _ in self._parts(offsets))
        except RetriableError:
            return True  # the turn tells what is wrong

    def open(self) -> None:
        self._store = open_store(self.values)

    def _parts(self, offsets: Mapping[str, dict[str, Any]]) -> Iterator[Part]:
        found = []
        for file in self._store.list(self.values["topics.dir"]):
            folder, _, name = file.path.rpartition("/")
            match = self._name.fullmatch(name)
            if match is None or not self._topics.fullmatch(match["topic"]):
                continue
            found.append(Part(folder, match["topic"], int(match["partition"]), int(match["start"]), file.path))
        count = int(self.given.get("task.count", "1"))
        for number, (_, parts) in enumerate(groupby(sorted(found), lambda each: each[:3])):
            if number % count != self.task:
                continue
            for part in parts:
                at = offsets.get(offset_key(part.place))
                if at is None or part.start > at["start"] or (part.start == at["start"] and not at.get("done")):
                    yield part

    def poll(self) -> Sequence[Record]:
        if self._reading is None:
            self._reading = self._records()
        limit = self.values["record.batch.max.size"]
        found = []
        for record in self._reading:
            found.append(record)
            if len(found) >= limit:
                break
        return found

    def _records(self) -> Iterator[Record]:
        for part in self._parts(self.offsets):
            at = self.offset(part.place) or {}
            position = dict(at) if at.get("start") == part.start else {}
            with self._store.open(part.path) as file:
                reading = (self._format or format_of_path(part.path, self.values)).read(file, position)
                ahead = next(reading, None)
                while ahead is not None:
                    now, ahead = ahead, next(reading, None)
                    offset = {"start": part.start, **now.position} | ({} if ahead is not None else {"done": True})
                    topic = self.values["topic.prefix"] + part.topic
                    yield Record(
                        topic, now.value, now.schema, source_partition=part.place, source_offset=offset,
                        partition=part.partition,
                    )  # fmt: skip
