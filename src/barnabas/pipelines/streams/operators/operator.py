"""An operator turns the rows of its inputs into rows. It is pickled to the workers; what it remembers is in stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.pipelines.streams.rows import Rows
from barnabas.pipelines.streams.state.stores import Store


class Task(Protocol):
    """What an operator sees of the partition and the batch it works in."""

    def store(self, name: str) -> Store: ...

    def global_store(self, name: str) -> Store: ...

    def fail(self, rank: int, error: Exception) -> None:
        """Raises, naming operator and record; returns where the record became a dead letter."""


class Operator:
    kind = "operator"
    stores: tuple[str, ...] = ()  # what it remembers, by name

    def run(self, task: Task, inputs: list[Rows]) -> Any:
        raise NotImplementedError

    def detail(self) -> str:
        """What a description says of it beyond its kind; part of what makes a topology the same."""
        return ""


def called(task: Task, rows: Rows, function: Callable[[Any, Any], Any]) -> tuple[Rows, list[Any]]:
    """The function's results for key and value of each row, beside those rows that it didn't fail on."""
    pairs = zip(rows.keys, rows.values, strict=True)
    results: list[Any] = []
    failed: list[int] = []
    append = results.append
    while True:
        try:
            for key, value in pairs:
                append(function(key, value))
            break
        except Exception as error:
            position = len(results) + len(failed)
            task.fail(int(rows.ranks[position]), error)
            failed.append(position)
    return rows.without(failed), results
