"""Persistent queries on Spark: each is a topology with its own checkpoint, and those that keep nothing share some
(`sharing`). Spark starts with the first of them.

What reads one topic, and what reads the results of that, is a group: it runs in one Spark query. A query stands alone
for a while if it is far behind the others, or if the group has failed twice: who is at fault fails alone then.

One thread starts and stops them in the order of the command topic. A query that fails is started again, each time
later. A query belongs to a slot, and the server that has the slot runs it (`leadership`); in the others it stands by.
Runs are that thread's alone; an entry's state is set by it, and by who pauses, resumes or replaces a query.
"""

from __future__ import annotations

import logging
import queue
import re
import shutil
import threading
import time
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.pipelines.running.failures import of_query
from barnabas.pipelines.spark.lag import lag
from barnabas.pipelines.sql.engine import PersistentQuery
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.plan.shared import source_topic
from barnabas.pipelines.sql.server.counts import Counts, counted
from barnabas.pipelines.sql.server.driver import abandon, is_gone, start_driver
from barnabas.pipelines.sql.server.kafka import Kafka
from barnabas.pipelines.sql.server.sharing import BATCH_RECORDS, FAR_RECORDS, Sharing, Together, file_name
from barnabas.pipelines.streams.figures import read_figures
from barnabas.pipelines.streams.state.storage import Storage

log = logging.getLogger(__name__)
LOOK_S = 1.0
HALTED_WITHIN_S = 60.0
RETRY_FIRST_S, RETRY_MOST_S = 2.0, 60.0
SLOTS = 12  # of a service: what its servers share among them
ALL_SLOTS = range(SLOTS)
TRIGGER = {"processingTime": "200 milliseconds"}  # ten idle queries on the default trigger use a quarter of a machine


@dataclass
class Entry:
    query: PersistentQuery
    offsets: Mapping[str, Mapping[int, int]] | str
    state: str = "CREATED"  # RUNNING, PAUSED, ERROR, STANDBY
    paused: bool = False  # what was wished last
    error: str = ""
    retry_s: float = RETRY_FIRST_S
    retry_at: float = 0.0
    started_at: float = 0.0
    group: str | None = None  # whose Spark query it shares
    alone: bool = False  # for now it shares none
    far: bool = False  # because it has much to catch up with
    ends: bool = False


@dataclass(frozen=True, eq=False)
class Running:
    """A Spark query, which may run several queries, and the session that runs it."""

    run: Any
    spark: Any


def slot_of(query_id: str) -> int:
    return zlib.crc32(query_id.encode()) % SLOTS


class SparkQueries:
    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path,
        name: str,
        master: str | None,
        options: Mapping[str, str],
        conf: Mapping[str, str] | None = None,
        *,
        kafka: Kafka | None = None,
        nice: int = 0,
    ) -> None:
        """`conf` is Spark's, `nice` how much lower its processes stand. Without `kafka` queries share nothing."""
        self._nice = nice
        self._servers, self._directory, self._name, self._master = bootstrap_servers, directory, name, master
        self._conf = dict(conf or {})
        self._options = {f"kafka.{key}": value for key, value in options.items()}
        settings = {"kafka.bootstrap.servers": bootstrap_servers, **self._options}
        self._sharing = None if kafka is None else Sharing(directory, settings, kafka.offsets, kafka.ids)
        self.entries: dict[str, Entry] = {}
        self._runs: dict[str, Running] = {}
        self.slots: frozenset[int] = frozenset()  # this server's
        self._halted = threading.Event()
        self._work: queue.Queue[tuple[str, str]] = queue.Queue()
        self._stopped = threading.Event()
        self._spark: Any = None
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="sql-queries", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    @property
    def active(self) -> bool:
        return bool(self.slots)

    def mine(self, query_id: str) -> bool:
        entry = self.entries.get(query_id)
        return slot_of(query_id if entry is None or entry.group is None else entry.group) in self.slots

    def activate(self, slots: Collection[int] = ALL_SLOTS) -> None:
        """From now on the queries of these slots run here."""
        self.slots |= frozenset(slots)
        self._work.put(("activate", ""))

    def deactivate(self, slots: Collection[int] = ALL_SLOTS) -> None:
        """Stops the queries of these slots and returns when they have ended."""
        self.slots -= frozenset(slots)
        if not self._thread.is_alive():
            return
        self._halted.clear()
        self._work.put(("deactivate", ""))
        if not self._halted.wait(HALTED_WITHIN_S):
            log.warning("the queries have not ended after %.0f s", HALTED_WITHIN_S)

    def _waiting(self, query_id: str) -> str:
        return "CREATED" if self.mine(query_id) else "STANDBY"

    def start(self, query: PersistentQuery, offsets: Mapping[str, Mapping[int, int]] | str) -> None:
        entry = Entry(query, offsets, group=self._group(query))
        self.entries[query.id] = entry
        entry.state = self._waiting(query.id)
        self._work.put(("start", query.id))

    def _group(self, query: PersistentQuery) -> str | None:
        """The topic that the first query of a chain reads, and what the queries of a chain have in common."""
        if self._sharing is None or (topic := source_topic(query.planned)) is None:
            return None
        guarantee = query.planned.topology.processing_guarantee
        for one in list(self.entries.values()):
            if one.group and one.group.endswith(f" {guarantee}") and one.query.topic == topic and not one.ends:
                return one.group
        return f"{topic} {guarantee}"

    def stop(self, query_id: str, *, forget: bool) -> None:
        if not self._thread.is_alive():  # while the command topic is replayed: it was never started
            self.entries.pop(query_id, None)
            return
        if query_id in self.entries:
            self.entries[query_id].ends = True
        self._work.put(("forget" if forget else "stop", query_id))

    def pause(self, query_id: str) -> None:
        if query_id in self.entries:
            entry = self.entries[query_id]
            entry.paused, entry.state = True, "PAUSED"
            self._work.put(("pause", query_id))

    def resume(self, query_id: str) -> None:
        if query_id in self.entries:
            entry = self.entries[query_id]
            entry.paused, entry.state = False, self._waiting(query_id)
            self._work.put(("start", query_id))

    def end(self) -> None:
        """Stops all of them, and Spark."""
        self._stopped.set()
        self._work.put(("end", ""))
        if self._thread.is_alive():
            self._thread.join(60)

    def checkpoint(self, query_id: str) -> Path:
        return self._directory / file_name(query_id)

    def counts(self, query_id: str) -> Counts:
        """Of the query since it was started last."""
        entry = self.entries.get(query_id)
        if entry is None:
            return Counts()
        shared = self._sharing.steps(query_id) if self._sharing is not None and entry.group else None
        directory, names = shared or (self.checkpoint(query_id), {})
        figures = read_figures(Storage({}).at(str(directory)))
        return Counts() if figures is None else counted(entry.query.planned.topology.graph, figures, names)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                action, query_id = self._work.get(timeout=LOOK_S)
            except queue.Empty:
                action, query_id = "look", ""
            if action == "end":
                break
            try:
                self._act(action, query_id)
            except Exception:  # the thread must go on: it is all that starts and stops queries
                log.exception("could not %s %s; going on", action, query_id or "the queries")
        for query_id in list(self._runs):
            self._halt(query_id)
        if self._spark is not None:
            try:
                self._spark.stop()
            except Exception as error:
                log.warning("Spark did not stop cleanly: %s", error)
        self._halted.set()

    def _act(self, action: str, query_id: str) -> None:
        if action == "look":
            self._look()
        elif action == "activate":
            self._start_all()
        elif action == "deactivate":
            self._halt_others()
        else:
            self._do(action, query_id)

    def _start_all(self) -> None:
        for query_id, entry in list(self.entries.items()):
            if not entry.paused and query_id not in self._runs:
                self._start(entry)

    def _halt_others(self) -> None:
        """Those whose slots are not this server's any more."""
        try:
            for query_id, entry in list(self.entries.items()):
                if self.mine(query_id):
                    continue
                self._halt(query_id)
                if not entry.paused:
                    entry.state, entry.error, entry.retry_s = "STANDBY", "", RETRY_FIRST_S
        finally:
            self._halted.set()

    def _do(self, action: str, query_id: str) -> None:
        entry = self.entries.get(query_id)
        if entry is None:
            return
        if action == "start":
            if not entry.paused and entry.state != "RUNNING":  # it runs if it came while all were started
                self._start(entry)
            return
        others = self._halt(query_id)
        if action == "pause" and entry.paused:
            entry.state = "PAUSED"
        is_mine = self.mine(query_id)
        if action in ("stop", "forget"):
            self.entries.pop(query_id, None)
        if others:
            self._start(others[0])
        if action == "forget" and is_mine:  # servers share the directory
            if entry.group and self._sharing is not None:
                self._sharing.forget(query_id)
            else:
                shutil.rmtree(self.checkpoint(query_id), ignore_errors=True)

    def _halt(self, query_id: str) -> list[Entry]:
        """Ends what runs a query. Gives the other queries that it ran."""
        running = self._runs.pop(query_id, None)
        if running is None:
            return []
        others = [name for name, one in self._runs.items() if one is running]
        for name in others:
            del self._runs[name]
        try:
            running.run.stop()
        except Exception as error:
            log.warning("query %s did not stop cleanly: %s", query_id, error)
        return [self.entries[name] for name in others if name in self.entries]

    def _start(self, entry: Entry) -> None:
        query_id = entry.query.id
        if not self.mine(query_id):
            return
        if entry.group is not None:
            self._start_together([entry] if entry.alone else self._sharers(entry.group))
            return
        self._halt(query_id)
        entry.state = "CREATED"
        try:
            spark = self.session()
            run = entry.query.planned.topology.start(
                spark,
                bootstrap_servers=self._servers,
                checkpoint=self.checkpoint(query_id),
                starting_offsets=entry.offsets,
                trigger=TRIGGER,
                options=self._options,
            )
        except Exception as error:
            self._failed(entry, error)
            return
        self._runs[query_id] = Running(run, spark)
        entry.state, entry.error, entry.started_at = "RUNNING", "", time.monotonic()

    def _sharers(self, group: str) -> list[Entry]:
        return [one for one in list(self.entries.values()) if one.group == group and not one.alone and not one.paused]

    def _start_together(self, entries: list[Entry]) -> None:
        """One Spark query for all of them. Those that cannot take part are on their own from then on."""
        for entry in entries:
            self._halt(entry.query.id)
            entry.state = "CREATED"
        try:
            spark = self.session()
            entries, together = self._come_together(entries)
            if together is None:
                return
            run = together.topology.start(
                spark,
                bootstrap_servers=self._servers,
                checkpoint=together.directory,
                starting_offsets=together.first,
                trigger=TRIGGER,
                max_batch_records=BATCH_RECORDS,
                options=self._options,
            )
        except Exception as error:
            for entry in entries:
                self._failed(entry, error, together=len(entries))
            return
        running = Running(run, spark)
        for entry in entries:
            self._runs[entry.query.id] = running
            entry.state, entry.error, entry.started_at = "RUNNING", "", time.monotonic()

    def _come_together(self, entries: list[Entry]) -> tuple[list[Entry], Together | None]:
        """Those that go on together, and with what. The others are started alone."""
        assert self._sharing is not None
        if not entries:
            return [], None
        assert entries[0].group is not None
        name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{self._name}-{entries[0].group.split()[0]}")
        if len(entries) == 1:
            name = entries[0].query.planned.topology.name
        queries = {one.query.id: one.query.planned for one in entries}
        found = self._sharing.together(name, queries)
        if found is not None:
            return entries, found
        standing = {}
        for entry in list(entries):
            try:
                standing[entry.query.id] = self._sharing.standing(entry.query.id, entry.query.planned, entry.offsets)
            except SqlError as error:  # its topic is not there any more
                entry.alone = True
                entries.remove(entry)
                self._failed(entry, error)
        far = [one for one in entries if self._sharing.behind(standing[one.query.id]) > FAR_RECORDS]
        if len(far) < len(entries):
            for entry in far:
                entry.alone = entry.far = True
                entries.remove(entry)
                self._start_together([entry])
        if not entries:
            return [], None
        queries = {one.query.id: one.query.planned for one in entries}
        return entries, self._sharing.begin(name, queries, {one: standing[one] for one in queries})

    def _may_share(self, entry: Entry, running: Running) -> bool:
        """A query that stands alone may share again when it has caught up, or has run for long enough."""
        if not entry.far:
            return time.monotonic() - entry.started_at > RETRY_MOST_S
        progress = running.run.queries[0].lastProgress
        return progress is not None and lag(progress).total < FAR_RECORDS // 2

    def _share_again(self, entries: list[Entry]) -> None:
        for entry in entries:
            entry.alone = entry.far = False
        for group in dict.fromkeys(entry.group for entry in entries):
            if group is not None:
                self._start_together(self._sharers(group))

    def _failed(self, entry: Entry, error: object, *, together: int = 1) -> None:
        """Who fails a second time together with others is tried alone."""
        if together > 1 and entry.retry_s > RETRY_FIRST_S:
            entry.alone = True
        failure = of_query(entry.query.id, str(error))
        entry.state, entry.error = "ERROR", failure.sentence
        entry.retry_at = time.monotonic() + entry.retry_s
        log.error("query %s failed and is started again in %.0f s: %s", entry.query.id, entry.retry_s, entry.error)
        log.debug("%s", failure.detail)
        entry.retry_s = min(entry.retry_s * 2, RETRY_MOST_S)

    def _look(self) -> None:
        """Finds queries that ended by themselves, and starts them again when it is time."""
        may_share: list[Entry] = []
        for query_id, entry in list(self.entries.items()):
            running = self._runs.get(query_id)
            if entry.state == "RUNNING" and running is not None:
                try:
                    ended = None if running.run.is_active else running.run.queries[0].exception() or "it ended"
                except Exception as error:  # py4j's, of a driver that does not answer
                    self._lost(running.spark, error)
                    return
                if ended is not None:
                    self._ended(running, ended)
                elif time.monotonic() - entry.started_at > RETRY_MOST_S:
                    entry.retry_s = RETRY_FIRST_S
                if ended is None and entry.alone and self._may_share(entry, running):
                    may_share.append(entry)
            elif entry.state == "ERROR" and time.monotonic() >= entry.retry_at:
                self._start(entry)
        self._share_again(may_share)

    def _ended(self, running: Running, error: object) -> None:
        """A Spark query has, with all that it ran."""
        names = [name for name, one in self._runs.items() if one is running]
        for name in names:
            entry = self.entries.get(name)
            if entry is not None and entry.state == "RUNNING":
                self._failed(entry, error, together=len(names))

    def _lost(self, spark: Any, error: Exception) -> None:
        """A driver's process is gone: its queries go on in a new one, at their checkpoints."""
        log.error("Spark's driver does not answer and is started again: %s", error)
        with self._starting:
            if self._spark is spark:
                self._spark = None
                abandon(spark)
        for query_id in [name for name, running in self._runs.items() if running.spark is spark]:
            del self._runs[query_id]
            entry = self.entries.get(query_id)
            if entry is not None and entry.state == "RUNNING":
                self._failed(entry, "Spark's driver is gone")

    def session(self) -> Any:
        """Spark, which starts for whoever needs it first, and again if its driver is gone."""
        with self._starting:
            if self._spark is not None and is_gone(self._spark):
                log.error("Spark's driver has ended and is started again")
                abandon(self._spark)
                self._spark = None
            if self._spark is None:
                self._spark = start_driver(self._name, self._master, self._conf, self._nice)
            return self._spark
