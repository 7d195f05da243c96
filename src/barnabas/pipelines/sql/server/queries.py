"""Persistent queries on Spark: each is a topology with its own checkpoint. Spark starts with the first of them.

One thread starts and stops them in the order of the command topic. A query that fails is started again, each time
later. A query belongs to a slot, and the server that has the slot runs it (`leadership`); in the others it stands by.
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

from barnabas.pipelines.spark.startup import jvm
from barnabas.pipelines.sql.engine import PersistentQuery

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
    run: Any = None
    error: str = ""
    retry_s: float = RETRY_FIRST_S
    retry_at: float = 0.0
    started_at: float = 0.0


def slot_of(query_id: str) -> int:
    return zlib.crc32(query_id.encode()) % SLOTS


class SparkQueries:
    def __init__(
        self, bootstrap_servers: str, directory: Path, name: str, master: str | None, options: Mapping[str, str]
    ) -> None:
        self._servers, self._directory, self._name, self._master = bootstrap_servers, directory, name, master
        self._options = {f"kafka.{key}": value for key, value in options.items()}
        self.entries: dict[str, Entry] = {}
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
        return slot_of(query_id) in self.slots

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
        old = self.entries.get(query.id)
        entry = Entry(query, offsets, self._waiting(query.id), run=None if old is None else old.run)
        self.entries[query.id] = entry
        self._work.put(("start", query.id))

    def stop(self, query_id: str, *, forget: bool) -> None:
        if not self._thread.is_alive():  # while the command topic is replayed: it was never started
            self.entries.pop(query_id, None)
            return
        self._work.put(("forget" if forget else "stop", query_id))

    def pause(self, query_id: str) -> None:
        if query_id in self.entries:
            self.entries[query_id].state = "PAUSED"
            self._work.put(("pause", query_id))

    def resume(self, query_id: str) -> None:
        if query_id in self.entries:
            self.entries[query_id].state = self._waiting(query_id)
            self._work.put(("start", query_id))

    def end(self) -> None:
        """Stops all of them, and Spark."""
        self._stopped.set()
        self._work.put(("end", ""))
        if self._thread.is_alive():
            self._thread.join(60)

    def checkpoint(self, query_id: str) -> Path:
        return self._directory / re.sub(r"[^A-Za-z0-9._-]", "_", query_id)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                action, query_id = self._work.get(timeout=LOOK_S)
            except queue.Empty:
                self._look()
                continue
            if action == "end":
                break
            if action == "activate":
                self._start_all()
            elif action == "deactivate":
                self._halt_others()
            else:
                self._do(action, query_id)
        for entry in list(self.entries.values()):
            self._halt(entry)
        if self._spark is not None:
            try:
                self._spark.stop()
            except Exception as error:
                log.warning("Spark did not stop cleanly: %s", error)
        self._halted.set()

    def _start_all(self) -> None:
        for entry in list(self.entries.values()):
            if entry.state != "PAUSED" and entry.run is None:
                self._start(entry)

    def _halt_others(self) -> None:
        """Those whose slots are not this server's any more."""
        for entry in list(self.entries.values()):
            if self.mine(entry.query.id):
                continue
            self._halt(entry)
            if entry.state != "PAUSED":
                entry.state, entry.error, entry.retry_s = "STANDBY", "", RETRY_FIRST_S
        self._halted.set()

    def _do(self, action: str, query_id: str) -> None:
        entry = self.entries.get(query_id)
        if entry is None:
            return
        if action == "start":
            if entry.state not in ("PAUSED", "RUNNING"):  # it runs if it came while all were started
                self._start(entry)
            return
        self._halt(entry)
        if action in ("stop", "forget"):
            self.entries.pop(query_id, None)
        if action == "forget" and self.mine(query_id):  # servers share the directory
            shutil.rmtree(self.checkpoint(query_id), ignore_errors=True)

    def _halt(self, entry: Entry) -> None:
        run, entry.run = entry.run, None
        if run is None:
            return
        try:
            run.stop()
        except Exception as error:
            log.warning("query %s did not stop cleanly: %s", entry.query.id, error)

    def _start(self, entry: Entry) -> None:
        if not self.mine(entry.query.id):
            return
        self._halt(entry)
        entry.state = "CREATED"
        try:
            entry.run = entry.query.planned.topology.start(
                self.session(),
                bootstrap_servers=self._servers,
                checkpoint=self.checkpoint(entry.query.id),
                starting_offsets=entry.offsets,
                trigger=TRIGGER,
                options=self._options,
            )
            entry.state, entry.error, entry.started_at = "RUNNING", "", time.monotonic()
        except Exception as error:
            self._failed(entry, error)

    def _failed(self, entry: Entry, error: object) -> None:
        entry.state, entry.error = "ERROR", str(error)
        entry.retry_at = time.monotonic() + entry.retry_s
        log.error("query %s failed and is started again in %.0f s: %s", entry.query.id, entry.retry_s, error)
        entry.retry_s = min(entry.retry_s * 2, RETRY_MOST_S)

    def _look(self) -> None:
        """Finds queries that ended by themselves, and starts them again when it is time."""
        for entry in list(self.entries.values()):
            if entry.state == "RUNNING" and entry.run is not None:
                try:
                    active = entry.run.is_active
                except Exception as error:  # py4j's, of a driver that does not answer
                    self._lost(error)
                    return
                if not active:
                    (query,) = entry.run.queries
                    self._failed(entry, query.exception() or "it ended")
                elif time.monotonic() - entry.started_at > RETRY_MOST_S:
                    entry.retry_s = RETRY_FIRST_S
            elif entry.state == "ERROR" and time.monotonic() >= entry.retry_at:
                self._start(entry)

    def _lost(self, error: Exception) -> None:
        """The driver's process is gone: all queries go on in a new one, at their checkpoints."""
        log.error("Spark's driver does not answer and is started again: %s", error)
        with self._starting:
            if self._spark is not None:
                jvm.forget(self._spark)
            self._spark = None
        for entry in list(self.entries.values()):
            entry.run = None
            if entry.state == "RUNNING":
                self._failed(entry, "Spark's driver is gone")

    def session(self) -> Any:
        """Spark, which starts for whoever needs it first."""
        with self._starting:
            if self._spark is None:
                from barnabas.pipelines.spark.session import session

                self._spark = session(self._name, master=self._master)
            return self._spark
