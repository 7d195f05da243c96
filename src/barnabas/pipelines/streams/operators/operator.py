"""An operator turns the rows of its inputs into rows. It is pickled to the workers; what it remembers is in stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.pipelines.streams.expressions import Computed
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


class OfValue:
    """A function of the value alone, as one of key and value."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, key: Any, value: Any) -> Any:
        return self.function(value)


def called(task: Task, rows: Rows, function: Callable[[Any, Any], Any]) -> tuple[Rows, list[Any]]:
    """The function's results for key and value of each row, beside those rows that it didn't fail on."""
    keys, values = rows.keys, rows.values
    if isinstance(function, Computed):
        try:
            return rows, function.all(keys, values)
        except Exception:
            pass  # one by one it is told which
    results: list[Any] = []
    failed: list[int] = []
    calls = map(function.function, values) if isinstance(function, OfValue) else map(function, keys, values)
    while True:
        try:
            results.extend(calls)
            if len(results) + len(failed) < len(values):
                raise StopIteration  # by the function, which to `extend` looks like the end
            return rows.without(failed), results
        except Exception as error:
            position = len(results) + len(failed)
            task.fail(int(rows.ranks[position]), error)
            failed.append(position)
