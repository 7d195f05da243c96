"""FileStream source and sink, as Kafka's quickstart has them: lines of a file to a topic, and back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from barnabas.pipelines.connect.config import Definition, Setting, at_least, not_empty
from barnabas.pipelines.connect.connector import Settings, SinkConnector, SourceConnector, TopicPartition, offset_key
from barnabas.pipelines.connect.data.columns import SourceColumn
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import STRING
from barnabas.pipelines.connect.errors import ConnectError

READ_BYTES = 4 * 1024 * 1024


class FileStreamSource(SourceConnector):
    """A line is read when its end is there. Source partitions are `{"filename": ...}`, offsets `{"position": n}`."""

    doc = "Lines of a file, which may grow."
    definition = Definition(
        [
            Setting("file", "STRING", None, doc="Source filename. If not specified, the standard input will be used"),
            Setting("topic", doc="The topic to publish data to", check=not_empty),
            Setting("batch.size", "INT", 2000, "LOW", "The maximum number of records the source task can read from the "
                    "file each time it is polled", at_least(1)),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        if self.values["file"] is None:
            raise ConnectError("file is not set: a worker has no standard input to read")
        self._partition = {"filename": self.values["file"]}

    def has_news(self, offsets: Mapping[str, dict[str, Any]]) -> bool:
        at = offsets.get(offset_key(self._partition), {}).get("position", 0)
        try:
            return Path(self.values["file"]).stat().st_size > at and not self._waits_for_end(at)
        except OSError:
            return False

    def _waits_for_end(self, at: int) -> bool:
        """Whether there is only the beginning of a line."""
        with open(self.values["file"], "rb") as file:
            file.seek(at)
            return b"\n" not in file.read(READ_BYTES)

    def poll(self) -> Sequence[Record]:
        at = (self.offset(self._partition) or {}).get("position", 0)
        try:
            with open(self.values["file"], "rb") as file:
                file.seek(at)
                data = file.read(READ_BYTES)
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        records = []
        topic, partition = self.values["topic"], self._partition
        for line in data[:end].split(b"\n")[:-1]:
            at += len(line) + 1
            text = line.removesuffix(b"\r").decode(errors="replace")
            records.append(Record(topic, text, STRING, source_partition=partition, source_offset={"position": at}))
        self.offsets[offset_key(partition)] = {"position": at}
        return records

    column_schema = STRING

    def poll_column(self) -> SourceColumn | None:
        at = (self.offset(self._partition) or {}).get("position", 0)
        try:
            with open(self.values["file"], "rb") as file:
                file.seek(at)
                data = file.read(READ_BYTES)
        except FileNotFoundError:
            return None
        end = data.rfind(b"\n") + 1
        if not end:
            return None
        offset = {"position": at + end}
        self.offsets[offset_key(self._partition)] = offset
        return SourceColumn(self.values["topic"], lines_column(data[:end]), self._partition, offset)


def lines_column(data: bytes) -> Any:
    """Whole lines, without their ends, as an Arrow column; what is no UTF-8 is replaced."""
    import numpy as np
    import pyarrow as pa

    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode(errors="replace").encode()
    view = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(view == ord("\n"))
    edges = np.zeros(2 * len(ends) + 1, np.int32)  # lines, and what is between them
    edges[1::2] = ends
    edges[2::2] = ends + 1
    if b"\r" in data:
        edges[1::2] -= (ends > edges[0:-1:2]) & (view[ends - 1] == ord("\r"))
    both = pa.Array.from_buffers(pa.binary(), 2 * len(ends), [None, pa.py_buffer(edges), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, 2 * len(ends), 2, dtype=np.int32)))


class FileStreamSink(SinkConnector):
    """Appends; at least once: a turn that is done again after a crash appends its lines again."""

    doc = "Appends records to a file, one a line."
    definition = Definition(
        [
            Setting(
                "file", "STRING", None, doc="Destination filename. If not specified, the standard output will be used"
            )
        ]
    )

    def open(self) -> None:
        self._lines: list[str] = []

    def put(self, records: Sequence[Record]) -> None:
        self._lines += [java_text(record.value) for record in records]

    def flush(self, positions: Mapping[TopicPartition, int]) -> None:
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        if not text:
            return
        if self.values["file"] is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        with open(self.values["file"], "a", encoding="utf-8", errors="replace") as file:
            file.write(text)

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        return [dict(settings)] * tasks_max
