"""The command topic: statements that define, in the one order that all servers of a service apply them.

A statement is checked, written here, and has happened when it is read back. A start reads the topic from its beginning.
Where the topic is damaged reading ends, as what comes after may mean something else than it did, and the server takes
no more definitions.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.server.kafka import EARLIEST, LATEST, Kafka

log = logging.getLogger(__name__)
POLL_MS = 250
APPLIED_WITHIN_S = 60
SEEN_WITHIN_S = 5
STATUSES_MAX = 10_000
CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True)
class Command:
    """`offsets` are those of the sources when the statement was made, where it begins at the latest."""

    statement: str
    properties: dict[str, Any] = field(default_factory=dict)
    offsets: dict[str, dict[str, int]] | None = None

    def encoded(self) -> bytes:
        tree = {
            "statement": self.statement,
            "streamsProperties": self.properties,
            "originalProperties": self.properties,
            "startingOffsets": self.offsets,
            "version": 1,
        }
        return json.dumps(tree).encode()


def decoded(data: bytes | None) -> Command:
    """Raises ValueError for what is no command."""
    tree = json.loads(data or b"")
    if not isinstance(tree, dict) or not isinstance(tree.get("statement"), str):
        raise ValueError("it has no statement")
    return Command(tree["statement"], tree.get("streamsProperties") or {}, tree.get("startingOffsets"))


Apply = Callable[[int, Command], Any]


class CommandTopic:
    def __init__(self, kafka: Kafka, topic: str, apply: Apply) -> None:
        self._kafka, self.topic, self._apply = kafka, topic, apply
        self._changed = threading.Condition()
        self._applied = 0  # the offset behind the last command that was applied
        self._results: dict[int, Any] = {}
        self.statuses: dict[str, dict[str, Any]] = {}  # of the last command about each thing, by the command's id
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="sql-commands", daemon=True)
        self.damage: str | None = None

    def start(self) -> None:
        """Applies all that is in the topic, and follows it."""
        first = self._kafka.offsets([self.topic], EARLIEST).get((self.topic, 0), 0)
        if first:
            self._damaged(f"the first {first} records of the command topic {self.topic} are gone. No query runs")
        else:
            self._thread.start()
            self.catch_up()

    def make(self) -> None:
        if not self._kafka.partitions(self.topic):
            self._kafka.create_topic(self.topic, 1, None, CONFIGS)

    def catch_up(self) -> None:
        """Waits until all that is in the topic now has been applied."""
        with self._changed:
            applied = self._applied
        end = self._kafka.offsets([self.topic], LATEST).get((self.topic, 0), 0)
        if end < applied:
            what = f"the command topic {self.topic} was deleted, or cut off, while this server ran"
            self._damaged(f"{what}. Its queries run on until it stops")
        with self._changed:
            self._changed.wait_for(lambda: self._applied >= end or self.damage is not None, APPLIED_WITHIN_S)

    def wait_for(self, offset: int) -> None:
        """Until the command at an offset has been applied: a client names the one it has seen another server answer."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._applied > offset or self.damage is not None, SEEN_WITHIN_S):
                raise SqlError(f"Command {offset} has not been applied by this server within {SEEN_WITHIN_S} s.")

    def check(self) -> None:
        """Refuses definitions if the topic is damaged."""
        if self.damage is not None:
            raise SqlError(f"The server takes no statements that define anything: {self.damage}")

    def append(self, key: str, command: Command) -> tuple[int, Any]:
        """The command's offset, and what applying it gave; raises what it raised."""
        self.check()
        offset = self._kafka.send(self.topic, key.encode(), command.encoded(), partition=0)
        with self._changed:
            self._changed.wait_for(lambda: self._applied > offset or self.damage is not None, APPLIED_WITHIN_S)
            if self._applied <= offset:
                raise SqlError("The statement was written to the command topic and has not been applied yet.")
            result = self._results.pop(offset, None)
        if isinstance(result, SqlError):
            raise result
        return offset, result

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _follow(self) -> None:
        with self._kafka.consumer() as consumer:
            consumer.assign({(self.topic, 0): 0})
            while not self._stopped.is_set() and self.damage is None:
                try:
                    records = consumer.poll(POLL_MS)
                except ClientError as error:
                    log.warning("the command topic %s cannot be read: %s; trying again", self.topic, error)
                    self._stopped.wait(1)
                    continue
                for record in records:
                    if self.damage is None:
                        self._one(record.offset, record.key, record.value)
                if self.damage is not None:
                    break
                position = consumer.positions.get((self.topic, 0), 0)
                with self._changed:
                    self._applied = max(self._applied, position)
                    self._changed.notify_all()

    def _one(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        try:
            command = decoded(value)
        except ValueError as error:
            what = f"record {offset} of the command topic {self.topic} is no command ({error})"
            self._damaged(f"{what}. The queries before it run")
            return
        try:
            result: Any = self._apply(offset, command)
        except SqlError as error:
            log.warning("command %d of %s was not applied: %s", offset, self.topic, error)
            result = error
        except Exception as error:
            log.exception("command %d of %s was not applied", offset, self.topic)
            result = SqlError(f"The statement could not be applied: {type(error).__name__}: {error}")
        self._note((key or b"").decode("utf-8", "replace"), result)
        with self._changed:
            self._results[offset] = result
            if len(self._results) > 1000:  # those of other servers, and of the start
                self._results.pop(next(iter(self._results)))
            self._applied = max(self._applied, offset + 1)
            self._changed.notify_all()

    def _damaged(self, what: str) -> None:
        with self._changed:
            if self.damage is None:
                self.damage = f"{what}. Restore the topic from a backup, or start with another ksql.service.id."
                log.error("%s", self.damage)
            self._changed.notify_all()

    def _note(self, command_id: str, result: Any) -> None:
        failed = not hasattr(result, "message") or isinstance(result, SqlError)
        query = getattr(result, "starts", None)
        self.statuses[command_id] = {
            "status": "ERROR" if failed else "SUCCESS",
            "message": str(getattr(result, "message", "")),
            "queryId": None if query is None else query.id,
        }
        if len(self.statuses) > STATUSES_MAX:
            del self.statuses[next(iter(self.statuses))]
