"""Connect's `errors.*`: what happens to a record that cannot be converted, transformed or written.

A RetriableError is tried again within `errors.retry.timeout`. What still fails fails the task, or with
`errors.tolerance=all` is skipped: logged if `errors.log.enable` says so, and sent to the dead letter topic, if there is
one. Unlike Connect, sources have dead letters too.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from barnabas.pipelines.connect.config import Definition, Setting, at_least, one_of
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import ConnectError, RetriableError

ERROR_SETTINGS = Definition(
    [
        Setting("errors.retry.timeout", "LONG", 0, "MEDIUM", "How long a failed operation is tried again.",
                group="Error Handling"),
        Setting("errors.retry.delay.max.ms", "LONG", 60_000, "MEDIUM", "Longest delay between two attempts.",
                group="Error Handling"),
        Setting("errors.tolerance", "STRING", "none", "MEDIUM", "none fails the task, all skips the record.",
                one_of("none", "all"), "Error Handling"),
        Setting("errors.log.enable", "BOOLEAN", False, "MEDIUM", "Whether failures are logged.",
                group="Error Handling"),
        Setting("errors.log.include.messages", "BOOLEAN", False, "MEDIUM", "Whether the log tells the record.",
                group="Error Handling"),
        Setting("errors.deadletterqueue.topic.name", "STRING", "", "MEDIUM", "The topic of failed records.",
                group="Error Handling"),
        Setting("errors.deadletterqueue.topic.replication.factor", "SHORT", 3, "MEDIUM", "Of that topic.",
                at_least(-1), "Error Handling"),
        Setting("errors.deadletterqueue.context.headers.enable", "BOOLEAN", False, "MEDIUM",
                "Whether headers tell what happened.", group="Error Handling"),
    ]
)  # fmt: skip
FIRST_DELAY_S = 0.3
PREFIX = "__connect.errors."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that nobody could use, as it came, and why."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None


class Skipped(Exception):
    """The record is left out; the chain of operations ends."""


class ToleranceExceeded(ConnectError):
    def __init__(self, cause: BaseException, record: str) -> None:
        super().__init__("Tolerance exceeded in error handler")
        self.cause, self.record = cause, record


class Tolerance:
    def __init__(self, settings: Mapping[str, str], *, name: str, task: int, sleep: Callable[[float], None]) -> None:
        values = ERROR_SETTINGS.parse(settings)
        self.values = values
        self.all = values["errors.tolerance"] == "all"
        self.topic = values["errors.deadletterqueue.topic.name"]
        self.letters: list[Letter] = []
        self.log: list[str] = []
        self.skipped = 0
        self._name, self._task, self._sleep = name, task, sleep

    def run(self, stage: str, operation: Callable[[], T], what: Raw, class_name: str = "") -> T:
        """The operation's result; raises Skipped if the record is to be left out, ToleranceExceeded if not."""
        try:
            return operation()
        except Exception as error:
            if isinstance(error, RetriableError):
                try:
                    return self._retried(operation, error)
                except Exception as again:
                    error = again
            if not self.all:
                raise ToleranceExceeded(error, what.where()) from error
            self._skip(stage, error, what, class_name)
            raise Skipped from None

    def skip(self, stage: str, error: Exception, what: Raw, class_name: str = "") -> None:
        """A record that the connector itself has found bad."""
        if not self.all:
            raise ToleranceExceeded(error, what.where()) from error
        self._skip(stage, error, what, class_name)

    def _retried(self, operation: Callable[[], T], error: Exception) -> T:
        timeout_ms = self.values["errors.retry.timeout"]
        until = time.monotonic() + timeout_ms / 1000 if timeout_ms >= 0 else float("inf")
        delay = FIRST_DELAY_S
        while time.monotonic() < until:
            self._sleep(min(delay, self.values["errors.retry.delay.max.ms"] / 1000, max(until - time.monotonic(), 0)))
            try:
                return operation()
            except RetriableError as again:
                error = again
            delay *= 2
        raise error

    def _skip(self, stage: str, error: Exception, what: Raw, class_name: str) -> None:
        self.skipped += 1
        if self.values["errors.log.enable"]:
            text = f"Error encountered in task {self._name}-{self._task}. Executing stage '{stage}'"
            text += f" with class '{class_name}'" if class_name else ""
            if self.values["errors.log.include.messages"]:
                text += f", where {what.described()}"
            self.log.append(f"{text}: {error}")
        if self.topic:
            headers = what.headers
            if self.values["errors.deadletterqueue.context.headers.enable"]:
                headers = (*headers, *self._context(stage, error, what, class_name))
            self.letters.append(Letter(what.key, what.value, headers, what.timestamp))

    def _context(self, stage: str, error: Exception, what: Raw, class_name: str) -> list[tuple[str, bytes | None]]:
        place = what.place
        given: dict[str, Any] = {
            "topic": place[0] if place else None,
            "partition": place[1] if place else None,
            "offset": place[2] if place else None,
            "connector.name": self._name,
            "task.id": self._task,
            "stage": stage,
            "class.name": class_name or None,
            "exception.class.name": java_name(error),
            "exception.message": str(error),
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
        return [(PREFIX + name, str(value).encode()) for name, value in given.items() if value is not None]


@dataclass(frozen=True, slots=True)
class Raw:
    """A record before it was touched."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    place: tuple[str, int, int] | None = None
    record: Record | None = None

    def described(self) -> str:
        if self.place is not None:
            topic, partition, offset = self.place
            return (
                f"consumed record is {{topic='{topic}', partition={partition}, offset={offset}, "
                f"timestamp={self.timestamp}, timestampType=CreateTime}}"
            )
        return f"source record is {self.record}"

    def where(self) -> str:
        """Without what is in it, which not everybody may see who may see states."""
        if self.place is not None:
            topic, partition, offset = self.place
            return f"record has offset {offset} in {topic}-{partition}"
        found = self.record
        return f"record has the source offset {None if found is None else found.source_offset}"


def java_name(error: BaseException) -> str:
    return error.java_class if isinstance(error, ConnectError) else type(error).__qualname__


def without_places(trace: str) -> str:
    """What is tried again by itself needs no places in our code."""
    return re.sub(r"\n  File .*", "", trace, flags=re.DOTALL)


def trace_of(error: BaseException) -> str:
    """As a task's status shows it: the classes' names as Connect has them, the record, and our places."""
    cause = error.cause if isinstance(error, ToleranceExceeded) else error
    lines = "".join(traceback.format_tb(cause.__traceback__)).rstrip()
    text = f"{java_name(cause)}: {cause}\n{lines}"
    if isinstance(error, ToleranceExceeded):
        text = f"{java_name(error)}: {error}\nThe {error.record}\nCaused by: {text}"
    return text
