"""Aggregates: each is a state that values are added to, and that can be shown, merged (sessions) and undone (tables).

States are plain lists and numbers: they are pickled with the state of the topology, and never changed in place.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from barnabas.pipelines.sql.compute import java
from barnabas.pipelines.sql.compute.java import frozen
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.types import BIGINT, DOUBLE, STRING, SqlType, array, map_of, struct

LIMIT = 1000  # of what HISTOGRAM keeps


class Aggregate:
    """One aggregate with its settings. `add` gets the values of its arguments."""

    name = ""
    said = ""
    ignores_nulls = True
    can_undo = False

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        self.kinds, self.settings = kinds, settings
        self.kind = kinds[0] if kinds else BIGINT

    def __reduce__(self) -> Any:
        return type(self), (self.kinds, self.settings)

    @property
    def returns(self) -> SqlType:
        return self.kind

    def first(self) -> Any:
        return None

    def add(self, state: Any, *values: Any) -> Any:
        raise NotImplementedError

    def undo(self, state: Any, *values: Any) -> Any:
        raise NotImplementedError

    def merge(self, one: Any, other: Any) -> Any:
        raise NotImplementedError

    def show(self, state: Any) -> Any:
        return state


def number_only(name: str, kind: SqlType) -> None:
    if not kind.is_numeric:
        raise SqlError(f"Function '{name}' does not accept parameters ({kind}): it takes a number.")


class Count(Aggregate):
    name, said, can_undo = "COUNT", "How many rows there are, or how many where a value is not null.", True
    returns = BIGINT

    def first(self) -> int:
        return 0

    def add(self, state: int, *values: Any) -> int:
        return state + 1

    def undo(self, state: int, *values: Any) -> int:
        return state - 1

    def merge(self, one: int, other: int) -> int:
        return one + other


class Sum(Aggregate):
    name, said, can_undo = "SUM", "The sum of numbers.", True

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        number_only(self.name, self.kind)

    def first(self) -> Any:
        return {"DOUBLE": 0.0, "DECIMAL": Decimal(0).scaleb(-self.kind.scale)}.get(self.kind.base, 0)

    def fit(self, value: Any) -> Any:
        if self.kind.base == "DECIMAL":
            return java.fitted(value, self.kind)
        if self.kind.base == "DOUBLE":
            return value
        return java.int32(value) if self.kind.base == "INTEGER" else java.int64(value)

    def add(self, state: Any, *values: Any) -> Any:
        return self.fit(self.plus(state, values[0]))

    def undo(self, state: Any, *values: Any) -> Any:
        return self.fit(self.plus(state, -values[0]))

    def merge(self, one: Any, other: Any) -> Any:
        return self.fit(self.plus(one, other))

    def plus(self, one: Any, other: Any) -> Any:
        return java.EXACT.add(one, other) if self.kind.base == "DECIMAL" else one + other


class SumList(Sum):
    name, said = "SUM_LIST", "The sum of all numbers of arrays."

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        if not kinds or kinds[0].base != "ARRAY" or kinds[0].element is None:
            raise SqlError("Function 'SUM_LIST' takes an ARRAY of numbers.")
        super().__init__([kinds[0].element], settings)
        self.kinds = kinds

    def add(self, state: Any, *values: Any) -> Any:
        return self.fit(state + sum(one for one in values[0] if one is not None))

    def undo(self, state: Any, *values: Any) -> Any:
        return self.fit(state - sum(one for one in values[0] if one is not None))


class Average(Aggregate):
    """State: (sum, count)."""

    name, said, can_undo = "AVG", "The average of numbers.", True
    returns = DOUBLE

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        number_only(self.name, self.kind)

    def first(self) -> Any:
        return (0.0 if self.kind.base in ("DOUBLE", "DECIMAL") else 0, 0)

    def add(self, state: Any, *values: Any) -> Any:
        value = float(values[0]) if self.kind.base == "DECIMAL" else values[0]
        return (state[0] + value, state[1] + 1)

    def undo(self, state: Any, *values: Any) -> Any:
        value = float(values[0]) if self.kind.base == "DECIMAL" else values[0]
        return (state[0] - value, state[1] - 1)

    def merge(self, one: Any, other: Any) -> Any:
        return (one[0] + other[0], one[1] + other[1])

    def show(self, state: Any) -> float | None:
        return 0.0 if not state[1] else state[0] / state[1]


class Max(Aggregate):
    name, said = "MAX", "The greatest value."
    ordered = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP")

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        if self.kind.base not in self.ordered:
            raise SqlError(f"Function '{self.name}' does not accept parameters ({self.kind}).")

    def better(self, one: Any, other: Any) -> bool:
        return java.is_less(other, one)

    def add(self, state: Any, *values: Any) -> Any:
        return values[0] if state is None or self.better(values[0], state) else state

    def merge(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return other if self.better(other, one) else one


class Min(Max):
    name, said = "MIN", "The least value."

    def better(self, one: Any, other: Any) -> bool:
        return java.is_less(one, other)


class ByOffset(Aggregate):
    """State: the values that are shown, in the order in which they came. Settings: [ignore nulls], [how many]."""

    latest = True

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        flags = [one for one in settings if isinstance(one, bool)]
        counts = [one for one in settings if isinstance(one, int) and not isinstance(one, bool)]
        self.ignores_nulls = flags[0] if flags else True
        self.count = counts[0] if counts else None
        if self.count is not None and self.count < 1:
            raise SqlError(f"{self.name} must keep at least one value, not {self.count}.")

    @property
    def returns(self) -> SqlType:
        return self.kind if self.count is None else array(self.kind)

    def first(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        size = self.count or 1
        if self.latest:
            return [*state, values[0]][-size:]
        return state if len(state) >= size else [*state, values[0]]

    def undo(self, state: list[Any], *values: Any) -> list[Any]:
        return state

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        size = self.count or 1
        return [*one, *other][-size:] if self.latest else [*one, *other][:size]

    def show(self, state: list[Any]) -> Any:
        if self.count is not None:
            return list(state)
        return state[-1 if self.latest else 0] if state else None


class LatestByOffset(ByOffset):
    name, said, can_undo = (
        "LATEST_BY_OFFSET",
        "The value that came last: LATEST_BY_OFFSET(col [, ignoreNulls] [, n]).",
        False,
    )


class EarliestByOffset(ByOffset):
    name, said, latest = "EARLIEST_BY_OFFSET", "The value that came first.", False


class CollectList(Aggregate):
    """The only setting is how many values are kept; all of them if there is none."""

    name, said, can_undo = "COLLECT_LIST", "All values in an array.", True
    limit_setting = "ksql.functions.collect_list.limit"
    ignores_nulls = False

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        limit = settings[0] if settings else None
        self._most = sys.maxsize if limit is None or limit < 0 else limit

    @property
    def returns(self) -> SqlType:
        return array(self.kind)

    def first(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        return state if len(state) >= self._most else [*state, values[0]]

    def undo(self, state: list[Any], *values: Any) -> list[Any]:
        for at in range(len(state) - 1, -1, -1):
            if frozen(state[at]) == frozen(values[0]):
                return [*state[:at], *state[at + 1 :]]
        return state

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return [*one, *other][: self._most]


class CollectSet(CollectList):
    name, said, can_undo = "COLLECT_SET", "All distinct values in an array.", False
    limit_setting = "ksql.functions.collect_set.limit"

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        if len(state) >= self._most or frozen(values[0]) in map(frozen, state):
            return state
        return [*state, values[0]]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        for value in other:
            one = self.add(one, value)
        return one


class Histogram(Aggregate):
    name, said, can_undo = "HISTOGRAM", "How often each text came, at most 1000 of them.", True
    returns = map_of(STRING, BIGINT)

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        if self.kind.base != "STRING":
            raise SqlError(f"Function 'HISTOGRAM' does not accept parameters ({self.kind}): it takes a STRING.")

    def first(self) -> dict[str, int]:
        return {}

    def add(self, state: dict[str, int], *values: Any) -> dict[str, int]:
        if values[0] not in state and len(state) >= LIMIT:
            return state
        return state | {values[0]: state.get(values[0], 0) + 1}

    def undo(self, state: dict[str, int], *values: Any) -> dict[str, int]:
        left = state | {values[0]: state.get(values[0], 0) - 1}
        return {key: count for key, count in left.items() if count > 0}

    def merge(self, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        found = dict(one)
        for key, count in other.items():
            if key in found or len(found) < LIMIT:
                found[key] = found.get(key, 0) + count
        return found


class CountDistinct(Aggregate):
    """Exact: the values are kept."""

    name, said = "COUNT_DISTINCT", "How many distinct values there are."
    returns = BIGINT

    def first(self) -> frozenset[Any]:
        return frozenset()

    def add(self, state: frozenset[Any], *values: Any) -> frozenset[Any]:
        value = frozen(values[0])
        return state if value in state else state | {value}

    def merge(self, one: frozenset[Any], other: frozenset[Any]) -> frozenset[Any]:
        return one | other

    def show(self, state: frozenset[Any]) -> int:
        return len(state)


class TopK(Aggregate):
    """Settings: how many. State: the values, greatest first; with other columns beside them, structs of both."""

    name, said, distinct = (
        "TOPK",
        "The k greatest values, with other columns beside them: TOPK(col, [col, ...] k).",
        False,
    )

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        if len(settings) != 1 or not isinstance(settings[0], int) or settings[0] < 1:
            raise SqlError(f"{self.name} needs a positive whole number: {self.name}(column, k).")
        self.names = ["sort_col", *(f"col{at}" for at in range(len(kinds) - 1))]

    @property
    def returns(self) -> SqlType:
        return array(self.kind if len(self.kinds) < 2 else struct(*zip(self.names, self.kinds, strict=True)))

    def first(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        if len(values) == 1:
            return self._kept([*state, values[0]])
        if values[0] is None:
            return state
        return self._kept([*state, dict(zip(self.names, values, strict=True))])

    def _kept(self, values: list[Any]) -> list[Any]:
        if self.distinct:
            values = list({frozen(one): one for one in values}.values())
        if len(self.kinds) > 1:
            return sorted(values, key=lambda one: one["sort_col"], reverse=True)[: self.settings[0]]
        return sorted(values, reverse=True)[: self.settings[0]]

    @property
    def ignores_nulls(self) -> bool:  # type: ignore[override]
        return len(self.kinds) < 2

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return self._kept([*one, *other])


class TopKDistinct(TopK):
    name, said, distinct = "TOPKDISTINCT", "The k greatest distinct values.", True


class StandardDeviation(Aggregate):
    """State: (count, mean, sum of squared distances), by Welford."""

    name, said, can_undo = "STDDEV_SAMPLE", "The standard deviation of a sample.", True
    returns = DOUBLE

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        number_only(self.name, self.kind)

    def first(self) -> Any:
        return (0, 0.0, 0.0)

    def add(self, state: Any, *values: Any) -> Any:
        count, mean, squares = state
        value = float(values[0])
        delta = value - mean
        mean += delta / (count + 1)
        return (count + 1, mean, squares + delta * (value - mean))

    def undo(self, state: Any, *values: Any) -> Any:
        count, mean, squares = state
        if count <= 1:
            return self.first()
        value = float(values[0])
        before = (mean * count - value) / (count - 1)
        return (count - 1, before, squares - (value - before) * (value - mean))

    def merge(self, one: Any, other: Any) -> Any:
        count = one[0] + other[0]
        if not count:
            return one
        delta = other[1] - one[1]
        squares = one[2] + other[2] + delta * delta * one[0] * other[0] / count
        return (count, one[1] + delta * other[0] / count, squares)

    def show(self, state: Any) -> float | None:
        return 0.0 if state[0] < 2 else math.sqrt(max(state[2], 0.0) / (state[0] - 1))


class Variance(StandardDeviation):
    """What ksqlDB has by this name is no standard deviation but its square."""

    name, said = "STDDEV_SAMP", "The variance of a sample: STDDEV_SAMPLE gives the standard deviation."

    def show(self, state: Any) -> float | None:
        return 0.0 if state[0] < 2 else max(state[2], 0.0) / (state[0] - 1)


class Correlation(Aggregate):
    """State: (count, sum x, sum y, sum xx, sum yy, sum xy)."""

    name, said, can_undo = "CORRELATION", "Pearson's correlation of two columns.", True
    returns = DOUBLE

    def __init__(self, kinds: list[SqlType], settings: list[Any]) -> None:
        super().__init__(kinds, settings)
        if len(kinds) != 2:
            raise SqlError("CORRELATION takes two numbers.")
        for kind in kinds:
            number_only(self.name, kind)

    def first(self) -> Any:
        return (0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def _moved(self, state: Any, x: float, y: float, sign: int) -> Any:
        change = (1, x, y, x * x, y * y, x * y)
        return tuple(one + sign * other for one, other in zip(state, change, strict=True))

    def add(self, state: Any, *values: Any) -> Any:
        return self._moved(state, float(values[0]), float(values[1]), 1)

    def undo(self, state: Any, *values: Any) -> Any:
        return self._moved(state, float(values[0]), float(values[1]), -1)

    def merge(self, one: Any, other: Any) -> Any:
        return tuple(left + right for left, right in zip(one, other, strict=True))

    def show(self, state: Any) -> float:
        count, x, y, xx, yy, xy = state
        spread = (count * xx - x * x) * (count * yy - y * y)
        return (count * xy - x * y) / math.sqrt(spread) if count and spread > 0 else math.nan


class Attribute(Aggregate):
    """State: [(value, how often)], at most two of them."""

    name, said, can_undo = "ATTR", "The one value that all rows have, or null.", True
    ignores_nulls = False

    def first(self) -> list[Any]:
        return []

    def _moved(self, state: list[Any], value: Any, by: int) -> list[Any]:
        found = [[one, count] for one, count in state]
        for pair in found:
            if frozen(pair[0]) == frozen(value):
                pair[1] += by
                return [pair for pair in found if pair[1] > 0]
        return [*found, [value, by]]

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        return self._moved(state, values[0], 1)

    def undo(self, state: list[Any], *values: Any) -> list[Any]:
        return self._moved(state, values[0], -1)

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        for value, count in other:
            one = self._moved(one, value, count)
        return one

    def show(self, state: list[Any]) -> Any:
        return state[0][0] if len(state) == 1 else None


AGGREGATES: dict[str, type[Aggregate]] = {
    one.name: one
    for one in (
        Count,
        Sum,
        SumList,
        Average,
        Max,
        Min,
        LatestByOffset,
        EarliestByOffset,
        CollectList,
        CollectSet,
        Histogram,
        CountDistinct,
        TopK,
        TopKDistinct,
        StandardDeviation,
        Variance,
        Correlation,
        Attribute,
    )
}


@dataclass(frozen=True)
class TableFunction:
    """A function that gives several rows."""

    name: str
    said: str
    returns: Callable[[SqlType], SqlType | None]
    rows: Callable[[Any], list[Any]]


def cube(values: list[Any]) -> list[Any]:
    """Every combination of the values and nulls."""
    found: list[list[Any]] = [[]]
    for value in values:
        choices = [None] if value is None else [None, value]
        found = [[*one, choice] for one in found for choice in choices]
    return found


TABLE_FUNCTIONS = {
    "EXPLODE": TableFunction("EXPLODE", "A row for each element of an array.", lambda kind: kind.element, list),
    "CUBE_EXPLODE": TableFunction(
        "CUBE_EXPLODE", "A row for each combination of an array's elements with null.", lambda kind: kind, cube
    ),
}
