"""An operator turns the rows of its inputs into rows. It is pickled to the workers; what it remembers is in stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from barnabas.pipelines.streams.context import Headers, RecordContext, WithContext
from barnabas.pipelines.streams.expressions import OfRows
from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.order import Numbers
from barnabas.pipelines.streams.origins import Place
from barnabas.pipelines.streams.rows import Rows
from barnabas.pipelines.streams.state.stores import Store

Function = Callable[..., Any]  # of key and value, and of the context where it is wrapped so
Joiner = Callable[[Value, Value], Value]  # of what is on the left and on the right, one of which may not be there


class Lookup(Protocol):
    """A table that is only read."""

    def get(self, key: Key, default: Value = None) -> Value: ...


class Caller(Protocol):
    """Who calls a user's function, and hears of the records that it fails on."""

    def context(self, rank: int, time_ms: int, /) -> RecordContext: ...

    def fail(self, rank: int, error: Exception, /) -> None:
        """Raises, naming operator and record; returns where the record became a dead letter."""


class Task(Caller, Protocol):
    """What an operator sees of the partition and the batch it works in."""

    def store(self, name: str) -> Store: ...

    def global_store(self, name: str) -> Lookup: ...

    @property
    def wall_clock_ms(self) -> int:
        """When the batch was begun."""

    def arrived(self, sources: tuple[int, ...]) -> tuple[Numbers, Numbers]:
        """Ranks and times of all rows of these sources, in their order."""

    def headers(self, rank: int) -> Headers: ...

    def place(self, rank: int) -> Place:
        """Topic, partition and offset of the record that a row comes from."""

    def offsets(self, ranks: Numbers) -> tuple[Numbers, Numbers]:
        """Partitions and offsets of the records that rows come from."""

    def late(self, count: int) -> None:
        """So many rows were left out because their windows are closed."""

    def fail_at(self, time_ms: int, error: Exception) -> None:
        """Raises, naming operator and time."""


class Operator:
    """What an operator makes of the rows up to a rank does not depend on the rows behind it (see `order`). An aggregate
    is free to show a key once a batch where nobody behind it `sees_changes`: the plan says so by `every_change`."""

    kind = "operator"
    stores: tuple[str, ...] = ()  # what it remembers, by name
    sees_changes = False  # results depend on each row that comes in, not on the last one of a key alone
    several_rows = False  # a row may become several

    def run(self, task: Task, inputs: list[Rows]) -> Rows | list[Rows]:
        """Rows, or those of each of its branches."""
        raise NotImplementedError

    def shapes(self) -> dict[str, str]:
        """What entries look like (`state.shapes`) in each store that can be moved to other partitions."""
        return {}

    def detail(self) -> str:
        """What a description says of it beyond its kind; part of what makes a topology the same."""
        return ""


class OfValue:
    """A function of the value alone, as one of key and value."""

    def __init__(self, function: Callable[[Value], Any]) -> None:
        self.function = function

    def __call__(self, key: Key, value: Value) -> Any:
        return self.function(value)


def called(task: Caller, rows: Rows, function: Function, contextual: bool = False) -> tuple[Rows, list[Any]]:
    """The function's results for key and value of each row, beside those rows that it didn't fail on. If it is
    `contextual` it takes the record's context, too."""
    keys, values = rows.keys, rows.values
    if isinstance(function, OfRows):
        try:
            return rows, function.all(keys, values)
        except Exception:
            pass  # one by one it is told which
    results: list[Any] = []
    failed: list[int] = []
    columns: list[Iterable[Any]] = [values] if isinstance(function, OfValue) else [keys, values]
    if contextual:
        columns.append(map(task.context, rows.ranks.tolist(), rows.times.tolist()))
    calls = map(function.function if isinstance(function, OfValue) else function, *columns)
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


def wants_context(function: Any) -> bool:
    return isinstance(function, WithContext)
