"""How values become an aggregate: one at a time, two aggregates into one, or a whole column at once.

    Count, Summary   know all three, and take columns
    Reduce, Fold     are the user's functions, and go value by value

`Summary` keeps parts from which its columns are computed: the sum and the count of an average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from barnabas.pipelines.streams.expressions import Aggregate
from barnabas.pipelines.streams.objects import Folded, Key, Value


class Folding:
    kind = "aggregate"
    by_column = False
    leaves_old = False  # adding makes a new aggregate and never changes the one before

    def first(self) -> Folded:
        """Where nothing was aggregated yet; None where the first value stands for itself."""
        return None

    def add(self, key: Key, value: Value, aggregate: Folded) -> Folded:
        raise NotImplementedError

    def combine(self, key: Key, one: Folded, other: Folded) -> Folded:
        """Of two aggregates of the same key; either may be None."""
        raise NotImplementedError

    def result(self, aggregate: Folded) -> Value:
        """What is shown of it."""
        return aggregate


class Count(Folding):
    kind = "count"
    by_column = True

    def first(self) -> int:
        return 0

    def add(self, key: Key, value: Value, aggregate: int) -> int:
        return aggregate + 1

    def combine(self, key: Key, one: int | None, other: int | None) -> int:
        return (one or 0) + (other or 0)

    def columns(self, keys: list[Key], values: list[Value]) -> dict[str, pa.Array]:
        return {}

    def asked(self) -> list[tuple[Any, str]]:
        return [([], "count_all")]

    def parts(self, found: pa.Table) -> list[Any]:
        counts: list[int] = found["count_all"].to_pylist()
        return counts


@dataclass
class Reduce(Folding):
    function: Callable[[Value, Value], Value]
    kind = "reduce"

    def add(self, key: Key, value: Value, aggregate: Folded) -> Folded:
        return value if aggregate is None else self.function(aggregate, value)

    def combine(self, key: Key, one: Folded, other: Folded) -> Folded:
        if one is None or other is None:
            return other if one is None else one
        return self.function(one, other)


@dataclass
class Fold(Folding):
    initial: Callable[[], Folded]
    function: Callable[[Key, Value, Folded], Folded]
    merger: Callable[[Key, Folded, Folded], Folded] | None = None

    def first(self) -> Folded:
        return self.initial()

    def add(self, key: Key, value: Value, aggregate: Folded) -> Folded:
        return self.function(key, value, aggregate)

    def combine(self, key: Key, one: Folded, other: Folded) -> Folded:
        if one is None or other is None:
            return other if one is None else one
        assert self.merger is not None
        return self.merger(key, one, other)


@dataclass
class Summary(Folding):
    """Aggregates of columns by name. Parts are (kind of part, value) in the order of `wanted`."""

    wanted: dict[str, Aggregate]
    by_column = True

    def first(self) -> Folded:
        return None

    def add(self, key: Key, value: Value, aggregate: Folded) -> Folded:
        parts = []
        for one in self.wanted.values():
            found = one.computed(key, value)
            parts.append(None if found is None else (found, 1))
        return self.combine(key, aggregate, tuple(parts))

    def combine(self, key: Key, one: Folded, other: Folded) -> Folded:
        if one is None or other is None:
            return other if one is None else one
        merges = [aggregate.merge for aggregate in self.wanted.values()]
        return tuple(
            b if a is None else a if b is None else merge(a, b) for merge, a, b in zip(merges, one, other, strict=True)
        )

    def result(self, aggregate: Folded) -> Value:
        if aggregate is None:
            return None
        return {name: one.result(part) for (name, one), part in zip(self.wanted.items(), aggregate, strict=True)}

    def columns(self, keys: list[Key], values: list[Value]) -> dict[str, pa.Array]:
        found: dict[str, pa.Array] = {}
        for one in self.wanted.values():
            if str(one.expression) not in found:
                found[str(one.expression)] = pa.array(one.computed.all(keys, values))
        return found

    def asked(self) -> list[tuple[Any, str]]:
        asked: list[tuple[Any, str]] = []
        for one in self.wanted.values():
            for function in (one.arrow, "count"):
                if (str(one.expression), function) not in asked:
                    asked.append((str(one.expression), function))
        return asked

    def parts(self, found: pa.Table) -> list[Any]:
        columns = []
        for one in self.wanted.values():
            column = str(one.expression)
            values = found[f"{column}_{one.arrow}"].to_pylist()
            counts = found[f"{column}_count"].to_pylist()
            pairs = zip(values, counts, strict=True)
            columns.append([(value, count) if count else None for value, count in pairs])
        return list(zip(*columns, strict=True))
