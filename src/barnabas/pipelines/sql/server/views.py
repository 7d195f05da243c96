"""Pull queries: tables by key, held in memory and kept up with their topics.

A view is made by the first pull query on a table. It reads the table's topic to its end and follows it from then on. A
query sees all that was committed to the topic before it came, so any server of a service answers the same.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, NamedTuple

from barnabas.client.errors import ClientError, Refused
from barnabas.client.records import ConsumerRecord
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.formats.codecs import codec_of
from barnabas.pipelines.sql.metastore import DataSource
from barnabas.pipelines.sql.operators import ReadSource
from barnabas.pipelines.sql.server.kafka import EARLIEST, LATEST, Kafka
from barnabas.pipelines.streams.serdes import SerdeError
from barnabas.pipelines.streams.windows import Windowed
from barnabas.wire.errors import ErrorCode

log = logging.getLogger(__name__)
CAUGHT_UP_WITHIN_S = 60
POLL_MS = 100
TAKEN_AT_ONCE = 100  # records


class RecordPlace(NamedTuple):
    topic: str
    partition: int
    offset: int


class RecordTask:
    """What a reader of rows asks of a topology's task, for one record of a consumer."""

    def __init__(self, record: ConsumerRecord) -> None:
        self.record = record

    def headers(self, rank: int) -> tuple[tuple[str, bytes | None], ...]:
        return tuple(self.record.headers)

    def place(self, rank: int) -> RecordPlace:
        return RecordPlace(self.record.topic, self.record.partition, self.record.offset)


def reader_of(source: DataSource) -> ReadSource:
    names = [one.name for one in (*source.keys, *source.values)]
    return ReadSource(
        (),
        codec_of(source.key_format, source.keys, key=True, topic=source.topic),
        codec_of(source.value_format, source.values, key=False, topic=source.topic),
        tuple(one.header for one in source.headers),
        source.window.kind if source.window else None,
        source.window.size_ms if source.window else None,
        names.index(source.timestamp_column) if source.timestamp_column else None,
        source.timestamp_format,
        source.table,
    )


class Ends:
    """Where a topic ends. Those who ask at the same time share an answer, if its question was put after theirs."""

    def __init__(self, kafka: Kafka, topic: str, partitions: int) -> None:
        self._kafka, self._places = kafka, [(topic, one) for one in range(partitions)]
        self._changed = threading.Condition()
        self._put = self._answered = 0
        self._asking = False
        self._found: dict[tuple[str, int], int] = {}
        self._error: ClientError | None = None

    def now(self) -> dict[tuple[str, int], int]:
        with self._changed:
            mine = self._put + 1
            self._changed.wait_for(lambda: self._answered >= mine or not self._asking)
            if self._answered >= mine:
                return self._told()
            self._asking = True
            self._put += 1
        found, error = {}, None
        try:
            found = self._kafka.ends(self._places)
        except ClientError as problem:
            error = problem
        with self._changed:
            self._found, self._error, self._asking, self._answered = found, error, False, self._put
            self._changed.notify_all()
            return self._told()

    def _told(self) -> dict[tuple[str, int], int]:
        if self._error is not None:
            raise self._error
        return self._found


class TableRows:
    """Rows of a table by key, or by key and window, as its records leave them."""

    def __init__(self, source: DataSource) -> None:
        self._source = source
        self._reader = reader_of(source)
        self._rows: dict[Any, dict[Any, tuple[Any, ...]]] = {}
        self._latest_ms = 0

    def get(self, key: Any) -> list[tuple[Any, ...]]:
        return list(self._rows.get(key, {}).values())

    def all(self) -> list[tuple[Any, ...]]:
        return [row for rows in self._rows.values() for row in rows.values()]

    def take(self, record: ConsumerRecord, until_ms: int | None = None) -> None:
        """A change; none that is later than `until_ms`."""
        try:
            found = self._reader.row(RecordTask(record), record.key, record.value, record.timestamp, 0)  # type: ignore[arg-type]
        except (SerdeError, EvaluationError) as error:
            log.debug("a record of %s cannot be read: %s", self._source.name, error)
            return
        if found is None or (until_ms is not None and found[2] > until_ms):
            return
        key, row, time_ms = found
        self._latest_ms = max(self._latest_ms, time_ms)
        window = key if isinstance(key, Windowed) else None
        inner = key.key if window is not None else key
        if row is None:
            rows = self._rows.get(inner, {})
            rows.pop(window, None)
            if not rows:
                self._rows.pop(inner, None)
            return
        rows = self._rows.setdefault(inner, {})
        rows[window] = row
        self._expire(rows)

    def _expire(self, rows: dict[Any, Any]) -> None:
        """Windows whose retention is over."""
        retention_ms = self._source.window.retention_ms if self._source.window else None
        if retention_ms is None:
            return
        for window in [one for one in rows if one is not None and one.end_ms + retention_ms <= self._latest_ms]:
            del rows[window]


class View:
    """Rows of one table, which follow its topic."""

    def __init__(self, kafka: Kafka, source: DataSource, partitions: int) -> None:
        self.source = source
        self._ends = Ends(kafka, source.topic, partitions)
        self._kafka = kafka
        self._rows = TableRows(source)
        self._changed = threading.Condition()
        self._positions: dict[tuple[str, int], int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"sql-view-{source.name}", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until all that is committed now is in the view."""
        try:
            ends = self._ends.now()
        except Refused as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise SqlError(f"Topic {self.source.topic} of {self.source.name} does not exist.") from None

        def there() -> bool:
            return all(self._positions.get(name, -1) >= offset for name, offset in ends.items())

        with self._changed:
            if not self._changed.wait_for(there, CAUGHT_UP_WITHIN_S):
                raise SqlError(f"Table {self.source.name} has not been read to its end yet. Try again later.")

    def get(self, key: Any) -> list[tuple[Any, ...]]:
        with self._changed:
            return self._rows.get(key)

    def all(self) -> list[tuple[Any, ...]]:
        with self._changed:
            return self._rows.all()

    def stop(self) -> None:
        self._stopped.set()

    def _follow(self) -> None:
        with self._kafka.consumer() as consumer:
            while not self._stopped.is_set():
                try:
                    if not consumer.positions:
                        starts = self._kafka.offsets([self.source.topic], EARLIEST)
                        if not starts:  # the topic has just been deleted
                            self._stopped.wait(1)
                            continue
                        consumer.assign(starts)
                    records = consumer.poll(POLL_MS)
                except ClientError as error:
                    log.warning("table %s cannot be followed: %s; trying again", self.source.name, error)
                    self._stopped.wait(1)
                    continue
                for first in range(0, len(records), TAKEN_AT_ONCE):  # who asks for a row waits for a few
                    with self._changed:
                        for record in records[first : first + TAKEN_AT_ONCE]:
                            self._rows.take(record)
                with self._changed:
                    self._positions = consumer.positions
                    self._changed.notify_all()


class Views:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._views: dict[str, View] = {}
        self._lock = threading.Lock()

    def of(self, source: DataSource) -> View:
        """The view of a table, read to the end of now."""
        with self._lock:
            view = self._views.get(source.name)
            if view is not None and view.source != source:
                view.stop()
                view = None
            if view is None:
                partitions = self._kafka.partitions(source.topic)
                if not partitions:
                    raise SqlError(f"Topic {source.topic} of {source.name} does not exist.")
                view = self._views[source.name] = View(self._kafka, source, partitions)
        view.wait()
        return view

    def past(self, source: DataSource, until_ms: int) -> TableRows:
        """The table as its changes up to a time have left it, as far as its topic still has them."""
        found = TableRows(source)
        ends = self._kafka.offsets([source.topic], LATEST)
        if not ends:
            raise SqlError(f"Topic {source.topic} of {source.name} does not exist.")
        with self._kafka.consumer() as consumer:
            consumer.assign(self._kafka.offsets([source.topic], EARLIEST))
            while any(consumer.positions[place] < end for place, end in ends.items()):
                for record in consumer.poll(POLL_MS):
                    found.take(record, until_ms)
        return found

    def forget(self, name: str) -> None:
        """A table that was dropped."""
        with self._lock:
            view = self._views.pop(name, None)
        if view is not None:
            view.stop()

    def stop(self) -> None:
        for view in self._views.values():
            view.stop()
