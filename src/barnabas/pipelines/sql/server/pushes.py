"""Push queries: the plan of a SELECT in a thread of the server, over the same operators as on Spark.

A thread reads the sources' topics and hands rows on; it waits while who asked does not take them.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.pipelines.sql.local import Given, LocalRun
from barnabas.pipelines.sql.operators import thawed
from barnabas.pipelines.sql.plan.planner import Planned
from barnabas.pipelines.sql.relations import WINDOWEND, WINDOWSTART
from barnabas.pipelines.sql.server.kafka import LATEST, Kafka
from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.windows import Windowed

log = logging.getLogger(__name__)
TO_END_POLL_MS, POLL_MS = 100, 1000  # hundreds of queries wait at once, and a record ends the wait
LIMIT_REACHED, ENDED = "Limit Reached", "Query Completed"
Row = tuple[Any, ...]


class PushQuery:
    """`rows` gets lists of rows and returns False when nobody wants more; `done` gets the last sentence."""

    def __init__(
        self,
        kafka: Kafka,
        query_id: str,
        planned: Planned,
        topics: list[str],
        *,
        start: int,
        limit: int | None,
        to_end: bool,
        rows: Callable[[list[Row]], bool],
        done: Callable[[str | None, str | None], None],
    ) -> None:
        self.id, self.planned = query_id, planned
        self._kafka, self._topics, self._limit, self._to_end = kafka, topics, limit, to_end
        self._rows, self._done = rows, done
        self._stopped = threading.Event()
        self._positions = kafka.offsets(topics, start)  # now: what comes after the statement is seen
        self._ends = kafka.offsets(topics, LATEST) if to_end else {}
        self._thread = threading.Thread(target=self._run, name=f"sql-push-{query_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        final, error = None, None
        try:
            final = self._follow()
        except (ClientError, StreamsError) as problem:
            error = str(problem)
        except Exception as problem:
            log.exception("push query %s failed", self.id)
            error = f"{type(problem).__name__}: {problem}"
        self._done(final, error)

    def _follow(self) -> str | None:
        partitions: dict[str, int] = {}
        for topic, number in self._positions:
            partitions[topic] = max(partitions.get(topic, 0), number + 1)
        run = LocalRun(self.planned.topology, partitions)
        given = 0
        wait_ms = TO_END_POLL_MS if self._to_end else POLL_MS
        try:
            with self._kafka.consumer(wait_ms=wait_ms) as consumer:
                consumer.assign(self._positions)
                while not self._stopped.is_set():
                    if self._to_end and all(consumer.positions[one] >= end for one, end in self._ends.items()):
                        return ENDED
                    records = consumer.poll(wait_ms)
                    if not records:
                        continue
                    shown = shown_rows(self.planned, run.process([as_given(one) for one in records]))
                    if self._limit is not None:
                        shown = shown[: self._limit - given]
                    given += len(shown)
                    if shown and not self._rows(shown):
                        return None
                    if self._limit is not None and given >= self._limit:
                        return LIMIT_REACHED
        finally:
            run.close()
        return None


class Tombstone(tuple[Any, ...]):
    """A row of a table that is gone: its key, and nulls."""

    __slots__ = ()


def shown_rows(planned: Planned, rows: list[dict[str, Any]]) -> list[Row]:
    """Records of a stream that have no value show nothing."""
    found: list[Row] = []
    for row in rows:
        if row["value"] is not None:
            found.append(pickle.loads(row["value"]))
        elif planned.table:
            found.append(tombstone(planned, None if row["key"] is None else pickle.loads(row["key"])))
    return found


def tombstone(planned: Planned, key: Any) -> Tombstone:
    inner = key.key if isinstance(key, Windowed) else key
    parts = (inner,) if len(planned.key_at) == 1 or inner is None else inner
    by_place = dict(zip(planned.key_at, parts, strict=False))
    if isinstance(key, Windowed):
        bounds = {WINDOWSTART: key.start_ms, WINDOWEND: key.end_ms}
        by_place |= {at: bounds[name] for at, name in enumerate(planned.names) if name in bounds}
    return Tombstone(thawed(by_place.get(at), kind) for at, kind in enumerate(planned.kinds))


def as_given(record: Any) -> Given:
    headers = tuple(record.headers)
    return record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, headers
