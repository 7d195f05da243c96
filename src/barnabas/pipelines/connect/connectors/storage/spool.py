"""A directory into which others put files: CSV, JSON lines, Avro, Parquet or plain lines.

A file is read when it has not changed for `file.minimum.age.ms`; when its last record is in Kafka for good it goes to
`finished.path`. One that cannot be read goes to `error.path`, or fails the task with `halt.on.error`. Source partitions
are `{"fileName": ...}`; an offset has the file's size and time, so that another file of the same name is read anew.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from barnabas.pipelines.connect.config import Definition, Setting, at_least, not_empty, one_of, regex
from barnabas.pipelines.connect.connector import Settings, SourceConnector, offset_key
from barnabas.pipelines.connect.connectors.storage.formats import Format, format_of_path, make_format
from barnabas.pipelines.connect.connectors.storage.stores import Found, Store, open_path
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import INT64, STRING
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, DataError, RetriableError

KINDS = {"Csv": "csv", "SchemaLessJson": "json", "Json": "json", "LineDelimited": "lines", "Avro": "avro",
         "Parquet": "parquet"}  # fmt: skip


class SpoolSource(SourceConnector):
    doc = "Files that are put into a directory."
    definition = Definition(
        [
            Setting("topic", doc="Where records go.", check=not_empty),
            Setting("input.path", doc="The directory, or a folder as s3://bucket/folder.", check=not_empty),
            Setting("finished.path", "STRING", "", doc="Where files go that were read; needed by cleanup.policy=MOVE."),
            Setting("error.path", "STRING", "", doc="Where files go that cannot be read."),
            Setting("input.file.pattern", "STRING", ".*", doc="Names of files to read.", check=regex),
            Setting("format.class", "STRING", "", doc="Empty: by the connector's class, or the files' names."),
            Setting("cleanup.policy", "STRING", "MOVE", "MEDIUM", "MOVE, DELETE or NONE.",
                    one_of("MOVE", "DELETE", "NONE")),
            Setting("halt.on.error", "BOOLEAN", True, "MEDIUM", "Whether a file that cannot be read fails the task."),
            Setting("file.minimum.age.ms", "LONG", 0, "LOW", "How long a file must not have changed.", at_least(0)),
            Setting("batch.size", "INT", 1000, "LOW", "Records of a poll.", at_least(1)),
            Setting("empty.poll.wait.ms", "LONG", 500, "LOW", "Time between two looks.", at_least(1)),
            Setting("csv.first.row.as.header", "BOOLEAN", True, "MEDIUM", "Whether the first row has the names."),
            Setting("csv.separator.char", "STRING", ",", "LOW", "Between values; a character, or its number."),
            Setting("csv.quote.char", "STRING", '"', "LOW", "Around values; a character, or its number."),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        for name in ("csv.separator.char", "csv.quote.char"):
            given = self.given.get(name, self.values[name])
            self.values[name] = chr(int(given)) if given.strip().isdigit() and len(given) > 1 else given
            if len(self.values[name]) != 1:
                raise ConfigError("must be one character", name, given)
        if self.values["cleanup.policy"] == "MOVE" and not self.values["finished.path"]:
            raise ConfigError("is needed by cleanup.policy=MOVE", "finished.path", "")
        if not self.values["halt.on.error"] and not self.values["error.path"]:
            raise ConfigError("is needed with halt.on.error=false", "error.path", "")
        self._pattern = re.compile(self.values["input.file.pattern"])
        named = re.search(r"SpoolDir(\w*?)(Source|Connector|$)", self.given.get("connector.class", ""))
        kind = self.values["format.class"] or (KINDS.get(named[1], "") if named else "")
        self._format: Format | None = make_format(kind, self.values) if kind else None
        self._reading: Iterator[Record] | None = None
        self._look_at = 0.0
        self._given: set[str] = set()
        self._done: list[tuple[Found, str]] = []

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        return [{**settings, "task.count": str(tasks_max)} for _ in range(tasks_max)]

    @property
    def pause_ms(self) -> int:
        return int(self.values["empty.poll.wait.ms"])

    def has_news(self, offsets: Mapping[str, dict[str, Any]]) -> bool:
        if time.monotonic() < self._look_at:  # listing a store costs more than looking at a local file
            return False
        try:
            self._look_at = time.monotonic() + self.pause_ms / 1000
            self.open()
            return any(True for _ in self._files(offsets))
        except RetriableError:
            return True  # the turn tells what is wrong

    def open(self) -> None:
        self._store: Store
        self._store, self._root = open_path(self.values["input.path"])

    def _files(self, offsets: Mapping[str, dict[str, Any]]) -> Iterator[Found]:
        count = int(self.given.get("task.count", "1"))
        youngest = time.time_ns() // 1_000_000 - self.values["file.minimum.age.ms"]
        for file in self._store.list(recursive=False):
            mine = zlib.crc32(file.name.encode()) % count == self.task
            if not mine or not self._pattern.fullmatch(file.name) or file.modified_ms > youngest or not file.size:
                continue
            at = offsets.get(offset_key({"fileName": file.name}), {})
            if self.values["cleanup.policy"] == "NONE" and at.get("done") and same(file, at):
                continue
            yield file

    def poll(self) -> Sequence[Record]:
        if self._reading is None:
            self._reading = self._records()
        found = []
        for record in self._reading:
            found.append(record)
            if len(found) >= self.values["batch.size"]:
                break
        return found

    def _records(self) -> Iterator[Record]:
        for file in self._files(self.offsets):
            try:
                yield from self._read(file)
                self._end(file, "")
            except DataError as error:
                if self.values["halt.on.error"]:
                    raise ConnectError(f"{self._store.full(file.path)} cannot be read: {error}") from error
                self.log.error("%s cannot be read and goes to %s: %s", file.path, self.values["error.path"], error)
                self._end(file, self.values["error.path"])
            except FileNotFoundError:
                continue  # somebody took it away

    def _read(self, file: Found) -> Iterator[Record]:
        place = {"fileName": file.name}
        at = self.offset(place) or {}
        position = at if same(file, at) else {}
        if position.get("done"):
            return
        number = position.get("offset", 0)
        mark = {"size": file.size, "modified": file.modified_ms}
        headers = (Header("file.name", file.name, STRING), Header("file.last.modified", file.modified_ms, INT64))
        with self._store.open(file.path) as opened:
            reading = (self._format or format_of_path(file.path, self.values)).read(opened, position)
            ahead = next(reading, None)
            while ahead is not None:
                failed: DataError | None = None
                now = ahead
                try:
                    ahead = next(reading, None)
                except DataError as error:  # what was read before it is given first
                    ahead, failed = None, error
                number += 1
                offset: dict[str, Any] = {"offset": number, **now.position, **mark}
                if ahead is None and failed is None:
                    offset["done"] = True
                self._given.add(file.path)
                yield Record(
                    self.values["topic"], now.value, now.schema, headers=headers, source_partition=place,
                    source_offset=offset,
                )  # fmt: skip
                if failed is not None:
                    raise failed

    def _end(self, file: Found, target: str) -> None:
        """A file moves when its records are committed, at once if this turn gave none of it."""
        if file.path in self._given:
            self._done.append((file, target))
        else:
            self._put_away(file, target)

    def committed(self, offsets: Mapping[str, dict[str, Any]]) -> None:
        while self._done:
            self._put_away(*self._done.pop())

    def _put_away(self, file: Found, target: str) -> None:
        policy = self.values["cleanup.policy"]
        if not target and policy == "NONE":
            return
        if not target and policy == "DELETE":
            self._store.delete(file.path)
            return
        folder = target or self.values["finished.path"]
        _, root = open_path(folder)
        try:
            self._store.move(file.path, f"{root}/{file.name}")
        except FileNotFoundError:
            pass  # moved before


def same(file: Found, at: Mapping[str, Any]) -> bool:
    return at.get("size") == file.size and at.get("modified") == file.modified_ms
