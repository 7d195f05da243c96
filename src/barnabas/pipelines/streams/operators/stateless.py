"""Operators that remember nothing. On tables they work on both sides of a change, and never see a tombstone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from barnabas.pipelines.streams.expressions import Computed
from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.operator import Function, Operator, Task, called, wants_context
from barnabas.pipelines.streams.rows import Rows, merged


@dataclass
class Source(Operator):
    """Rows as they come from topics; `run` is never asked. `timestamp` gives their times (`event_time`)."""

    topics: tuple[str, ...]
    timestamp: Function | None = None
    kind = "source"

    def detail(self) -> str:
        return ", ".join(self.topics)


@dataclass
class Filter(Operator):
    """A tombstone that the function can't judge does not satisfy it."""

    function: Function
    wanted: bool = True
    kind = "filter"

    def __post_init__(self) -> None:
        self.kind = "filter" if self.wanted else "filter-not"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        if rows.olds is not None:
            return self.run_on_table(task, rows)
        knows_null = isinstance(self.function, Computed) or None not in rows.values
        contextual = wants_context(self.function)
        rows, found = called(task, rows, self.function if knows_null else self.judge, contextual)
        wanted = self.wanted
        return rows.take([at for at, held in enumerate(found) if held is not None and bool(held) is wanted])

    def judge(self, key: Key, value: Value, *context: Any) -> Any:
        if value is not None:
            return self.function(key, value, *context)
        try:
            return self.function(key, None, *context)
        except Exception:
            return None

    def run_on_table(self, task: Task, rows: Rows) -> Rows:
        wanted, function = self.wanted, self.function

        def kept(key: Key, value: Value) -> Any:
            return value if value is not None and bool(function(key, value)) is wanted else None

        rows, news = called(task, rows, kept)
        rows, olds = called(task, with_olds(rows), kept)
        rows = rows.with_values(news, olds)
        return rows.take([at for at in range(len(rows)) if news[at] is not None or olds[at] is not None])


@dataclass
class MapValues(Operator):
    function: Function
    kind = "map-values"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        if rows.olds is None:
            rows, values = called(task, rows, self.function, wants_context(self.function))
            return rows.with_values(values)
        function = self.function

        def on_values(key: Key, value: Value) -> Any:
            return None if value is None else function(key, value)

        rows, news = called(task, rows, on_values)
        rows, olds = called(task, with_olds(rows), on_values)
        return rows.with_values(news, olds)


@dataclass
class Map(Operator):
    function: Function
    kind = "map"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        def pair(*given: Any) -> tuple[Any, Any]:
            new_key, new_value = self.function(*given)
            return new_key, new_value

        rows, pairs = called(task, inputs[0], pair, wants_context(self.function))
        return Rows([key for key, _ in pairs], [value for _, value in pairs], rows.times, rows.ranks)


@dataclass
class SelectKey(Operator):
    function: Function
    kind = "select-key"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        rows, keys = called(task, inputs[0], self.function, wants_context(self.function))
        return rows.with_keys(keys)


@dataclass
class FlatMap(Operator):
    """The function gives pairs, or with `values_only` values that keep the key."""

    function: Function
    values_only: bool = False
    kind = "flat-map"
    several_rows = True

    def __post_init__(self) -> None:
        self.kind = "flat-map-values" if self.values_only else "flat-map"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        def several(*given: Any) -> list[Any]:
            return list(self.function(*given))

        def pairs(*given: Any) -> list[tuple[Any, Any]]:
            return [(new_key, new_value) for new_key, new_value in self.function(*given)]

        rows, lists = called(task, inputs[0], several if self.values_only else pairs, wants_context(self.function))
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        times, ranks = np.repeat(rows.times, counts), np.repeat(rows.ranks, counts)
        if self.values_only:
            keys = [key for key, found in zip(rows.keys, lists, strict=True) for _ in found]
            return Rows(keys, [value for found in lists for value in found], times, ranks)
        made = [pair for found in lists for pair in found]
        return Rows([key for key, _ in made], [value for _, value in made], times, ranks)


@dataclass
class Peek(Operator):
    function: Function
    ends: bool = False
    kind = "peek"

    def __post_init__(self) -> None:
        self.kind = "foreach" if self.ends else "peek"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        return called(task, inputs[0], self.function, wants_context(self.function))[0]


@dataclass
class Branch(Operator):
    """Each row goes to the first branch whose function holds, or nowhere."""

    functions: tuple[Function, ...]
    kind = "branch"

    def run(self, task: Task, inputs: list[Rows]) -> list[Rows]:
        filters = [(Filter(function), wants_context(function)) for function in self.functions]

        def first(key: Key, value: Value, *context: Any) -> int:
            for number, (one, contextual) in enumerate(filters):
                if one.judge(key, value, *context) if contextual else one.judge(key, value):
                    return number
            return -1

        rows, numbers = called(task, inputs[0], first, any(contextual for _, contextual in filters))
        return [rows.take([at for at, found in enumerate(numbers) if found == n]) for n in range(len(filters))]


@dataclass
class BranchOutput(Operator):
    number: int
    kind = "branch-output"

    def run(self, task: Task, inputs: list[Any]) -> Rows:
        rows: Rows = inputs[0][self.number]
        return rows

    def detail(self) -> str:
        return str(self.number)


class Merge(Operator):
    kind = "merge"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        return merged(inputs)


class ToStream(Operator):
    """The changes of a table as records."""

    kind = "to-stream"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        return Rows(
            rows._keys, rows._values, rows.times, rows.ranks, raw_keys=rows.raw_keys, raw_values=rows.raw_values
        )


class Repartition(Operator):
    """Where rows leave for the partition of their key; what comes out there is the same rows."""

    kind = "repartition"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        return inputs[0]


@dataclass
class Sink(Operator):
    topic: str
    apart: bool = False  # nobody asks in which order its rows stand beside those of other sinks of the topic
    kind = "sink"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        return inputs[0]

    def detail(self) -> str:
        return self.topic


def with_olds(rows: Rows) -> Rows:
    """The rows with what was in place of what is, for functions that are asked about both."""
    return Rows(rows.keys, rows.olds, rows.times, rows.ranks, olds=rows.olds)
