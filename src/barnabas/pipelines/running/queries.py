"""The queries of a pipeline: named and given their checkpoints when the file starts them, watched from then on."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.running.status import QueryStatus

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ONLY_QUERY = "query"  # what the only one without a name is called
RATE_WINDOW_S = 10.0
WAITING = ("Waiting for data to arrive", "Waiting for next trigger")


class UnnamedQueries(ValueError):
    """Two queries without names: their checkpoints could not be told apart."""


class Watched:
    """One query and what has been seen of it."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._java: Any = query._jsq
        self.checkpoint = str(self._java.streamingQuery().resolvedCheckpointRoot())
        self.name: str = query.name or self.checkpoint.rstrip("/").rpartition("/")[2] or str(query.id)
        self._id = str(query.id)
        self._directory: Any = None
        self._rows = 0
        self._batch: int | None = None
        self._lag: int | None = None
        self._batch_ms: int | None = None
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    @property
    def has_result(self) -> bool:
        return self._batch is not None

    def is_at_rest(self) -> bool:
        """Between two batches."""
        status = self._java.status()
        return not status.isTriggerActive() or (not status.isDataAvailable() and status.message() in WAITING)

    def look(self) -> QueryStatus:
        active = bool(self._java.isActive())
        self._take_progress()
        now = time.monotonic()
        self._seen.append((now, self._rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_WINDOW_S:
            self._seen.popleft()
        began, before = self._seen[0]
        return QueryStatus(
            name=self.name,
            id=self._id,
            active=active,
            message=_without_objects(str(self._java.status().message())) if active else "ended",
            batch=self._batch,
            rows=self._rows,
            rows_per_second=round((self._rows - before) / max(now - began, 0.001), 1) if active else 0.0,
            batch_ms=self._batch_ms,
            lag=self._lag,
            checkpoint=self.checkpoint,
            figures=self._figures(),
        )

    def _figures(self) -> dict[str, Any] | None:
        """Of a topology, as its workers have written them."""
        from barnabas.pipelines.streams.errors import StreamsError
        from barnabas.pipelines.streams.figures import read_figures
        from barnabas.pipelines.streams.state.remote import settings_of_hadoop
        from barnabas.pipelines.streams.state.storage import Storage

        try:
            if self._directory is None:
                settings = settings_of_hadoop(self._java.sparkSession(), self.checkpoint)
                self._directory = Storage(settings).at(self.checkpoint)
            found = read_figures(self._directory)
        except (StreamsError, OSError):
            return None
        return None if found is None else found.to_json()

    def _take_progress(self) -> None:
        """Spark keeps the last hundred reports; those of batches that were not counted yet are at their end."""
        from barnabas.pipelines.spark.lag import lag

        reports = self._java.recentProgress()
        done = self._batch
        for at in range(len(reports) - 1, -1, -1):
            report = reports[at]
            if at == len(reports) - 1:
                found = lag(json.loads(report.json()))
                self._lag = found.total if found.partitions else None
            batch = int(report.batchId())
            if done is not None and batch <= done:
                break
            durations = report.durationMs()
            if not durations.containsKey("addBatch"):
                continue  # a report of idleness carries the number of the batch to come
            if self._batch == done:
                self._batch, self._batch_ms = batch, int(durations.get("triggerExecution") or 0)
            self._rows += records_read(json.loads(report.json()))


class Queries:
    def __init__(self) -> None:
        self.watched: list[Watched] = []
        self._unnamed = 0

    def add(self, query: StreamingQuery) -> None:
        self.watched.append(Watched(query))

    def name_for_unnamed(self) -> str:
        self._unnamed += 1
        if self._unnamed > 1:
            raise UnnamedQueries(
                "more than one query has neither a name nor a checkpointLocation, so that a changed file could mix "
                "them up: give each a queryName"
            )
        return ONLY_QUERY

    @contextmanager
    def registered(self) -> Iterator[None]:
        """While this lasts, every query that is started is known here, and has a name by which it is resumed."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        kept = {
            name: getattr(DataStreamWriter, name) for name in ("start", "toTable", "queryName", "option", "options")
        }
        for name in ("start", "toTable"):
            setattr(DataStreamWriter, name, self._starting(kept[name], kept["queryName"]))
        DataStreamWriter.queryName = _noting(kept["queryName"], "queryname")  # type: ignore[method-assign]
        DataStreamWriter.option = _noting_options(kept["option"])  # type: ignore[method-assign]
        DataStreamWriter.options = _noting_options(kept["options"])  # type: ignore[method-assign]
        try:
            yield
        finally:
            for name, method in kept.items():
                setattr(DataStreamWriter, name, method)

    def _starting(self, start: Callable[..., Any], name_it: Callable[..., Any]) -> Callable[..., Any]:
        def start_named(writer: Any, *given: Any, **more: Any) -> Any:
            said = _said(writer) | {name.lower() for name, value in more.items() if value is not None}
            if len(given) > 4:  # of start(path, format, outputMode, partitionBy, queryName) and of toTable the fifth
                said.add("queryname")
            if not said & {"queryname", "checkpointlocation"}:
                name_it(writer, self.name_for_unnamed())
            query = start(writer, *given, **more)
            self.add(query)
            return query

        return start_named


def records_read(progress: dict[str, Any]) -> int:
    """In one batch. Spark counts rows that leave a source, again for every time they are read, and of a topology the
    parcels that its first stage makes of records: of topics there are not more records than offsets."""
    from barnabas.pipelines.spark.offsets import IncompatibleCheckpoint, StreamOffset

    counted = 0
    for source in progress["sources"]:
        rows = int(source["numInputRows"])
        try:
            start, end = (StreamOffset.parse(source[name] or {}) for name in ("startOffset", "endOffset"))
        except (IncompatibleCheckpoint, KeyError, TypeError):
            counted += rows
            continue
        begins = {at: end.begin(start, at) for at in end.offsets}
        offsets = sum(offset - (begins[at] or 0) for at, offset in end.offsets.items())
        counted += min(rows, offsets) if end.offsets and None not in begins.values() else rows
    return counted


def _without_objects(message: str) -> str:
    """`Getting offsets from org.apache.spark...PythonMicroBatchStream@1e700bd9` says it with its first words."""
    return message.partition(" from org.")[0]


def _said(writer: Any) -> set[str]:
    said: set[str] = writer.__dict__.setdefault("_barnabas_said", set())
    return said


def _noting(method: Callable[..., Any], what: str) -> Callable[..., Any]:
    def noted(writer: Any, *given: Any, **more: Any) -> Any:
        _said(writer).add(what)
        return method(writer, *given, **more)

    return noted


def _noting_options(method: Callable[..., Any]) -> Callable[..., Any]:
    def noted(writer: Any, *given: Any, **more: Any) -> Any:
        names = [str(more["key"])] if "key" in more else [str(given[0])] if given else list(more)
        _said(writer).update(name.lower() for name in names)
        return method(writer, *given, **more)

    return noted
