"""Columns: `col("value.amount") > 10`. Spark computes them where it can read the record, Python where it can't.

The names are `key`, `value` and paths into a JSON value. Null is as in SQL: what is compared with it or computed from
it is null, and null satisfies no filter. Methods of an expression name aggregates: `col("value.n").sum()`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.errors import TopologyError

if TYPE_CHECKING:
    from pyspark.sql import Column

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Expression:
    """`==` builds an expression, so expressions are compared by their text."""

    __hash__ = None  # type: ignore[assignment]

    def evaluate(self, key: Any, value: Any) -> Any:
        raise NotImplementedError

    def column(self, key: Column, value: Column) -> Column:
        """For Spark, given the columns of the key and the value as they were read."""
        raise NotImplementedError

    def paths(self) -> list[str]:
        raise NotImplementedError

    def __add__(self, other: Any) -> Expression:
        return Binary("+", self, lit(other))

    def __sub__(self, other: Any) -> Expression:
        return Binary("-", self, lit(other))

    def __mul__(self, other: Any) -> Expression:
        return Binary("*", self, lit(other))

    def __truediv__(self, other: Any) -> Expression:
        return Binary("/", self, lit(other))

    def __mod__(self, other: Any) -> Expression:
        return Binary("%", self, lit(other))

    def __radd__(self, other: Any) -> Expression:
        return Binary("+", lit(other), self)

    def __rsub__(self, other: Any) -> Expression:
        return Binary("-", lit(other), self)

    def __rmul__(self, other: Any) -> Expression:
        return Binary("*", lit(other), self)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Binary("=", self, lit(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Binary("!=", self, lit(other))

    def __lt__(self, other: Any) -> Expression:
        return Binary("<", self, lit(other))

    def __le__(self, other: Any) -> Expression:
        return Binary("<=", self, lit(other))

    def __gt__(self, other: Any) -> Expression:
        return Binary(">", self, lit(other))

    def __ge__(self, other: Any) -> Expression:
        return Binary(">=", self, lit(other))

    def __and__(self, other: Any) -> Expression:
        return Logic("and", self, lit(other))

    def __or__(self, other: Any) -> Expression:
        return Logic("or", self, lit(other))

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> bool:
        raise TopologyError(
            f"{self} has no truth before records come: combine columns with &, | and ~, not and, or, not"
        )

    def is_null(self) -> Expression:
        return IsNull(self)

    def is_not_null(self) -> Expression:
        return Not(IsNull(self))

    def sum(self) -> Aggregate:
        return Aggregate("sum", self)

    def avg(self) -> Aggregate:
        return Aggregate("avg", self)

    def min(self) -> Aggregate:
        return Aggregate("min", self)

    def max(self) -> Aggregate:
        return Aggregate("max", self)

    def count(self) -> Aggregate:
        """Of rows where it is not null."""
        return Aggregate("count", self)


class Col(Expression):
    def __init__(self, path: str) -> None:
        self.root, *self.fields = path.split(".")
        if self.root not in ("key", "value") or not all(self.fields):
            raise TopologyError(f"col('{path}') begins with key or value, as col('value.amount')")
        self.path = path

    def __str__(self) -> str:
        return self.path

    def evaluate(self, key: Any, value: Any) -> Any:
        found = key if self.root == "key" else value
        for field in self.fields:
            if found is None:
                return None
            found = found.get(field)
        return found

    def column(self, key: Column, value: Column) -> Column:
        found = key if self.root == "key" else value
        for field in self.fields:
            found = found.getField(field)
        return found

    def paths(self) -> list[str]:
        return [self.path]


class Literal(Expression):
    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)

    def evaluate(self, key: Any, value: Any) -> Any:
        return self.value

    def column(self, key: Column, value: Column) -> Column:
        from pyspark.sql import functions as f

        return f.lit(self.value)

    def paths(self) -> list[str]:
        return []


class Binary(Expression):
    def __init__(self, name: str, left: Expression, right: Expression) -> None:
        self.name, self.left, self.right = name, left, right

    def __str__(self) -> str:
        return f"({self.left} {self.name} {self.right})"

    def evaluate(self, key: Any, value: Any) -> Any:
        left, right = self.left.evaluate(key, value), self.right.evaluate(key, value)
        return None if left is None or right is None else BINARY[self.name](left, right)

    def column(self, key: Column, value: Column) -> Column:
        found: Column = BINARY[self.name](self.left.column(key, value), self.right.column(key, value))
        return found

    def paths(self) -> list[str]:
        return self.left.paths() + self.right.paths()


class Logic(Binary):
    def evaluate(self, key: Any, value: Any) -> Any:
        left, right = self.left.evaluate(key, value), self.right.evaluate(key, value)
        decides = self.name == "or"
        if decides in (left, right):
            return decides
        return None if left is None or right is None else not decides

    def column(self, key: Column, value: Column) -> Column:
        left, right = self.left.column(key, value), self.right.column(key, value)
        return left & right if self.name == "and" else left | right


class Not(Expression):
    def __init__(self, inner: Expression) -> None:
        self.inner = inner

    def __str__(self) -> str:
        return f"not {self.inner}"

    def evaluate(self, key: Any, value: Any) -> Any:
        found = self.inner.evaluate(key, value)
        return None if found is None else not found

    def column(self, key: Column, value: Column) -> Column:
        return ~self.inner.column(key, value)

    def paths(self) -> list[str]:
        return self.inner.paths()


class IsNull(Not):
    def __str__(self) -> str:
        return f"{self.inner} is null"

    def evaluate(self, key: Any, value: Any) -> Any:
        return self.inner.evaluate(key, value) is None

    def column(self, key: Column, value: Column) -> Column:
        return self.inner.column(key, value).isNull()


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A column of an aggregate: its part of a group is (value, how many were not null)."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        return f"{self.name}({self.expression})"

    @property
    def arrow(self) -> str:
        return "sum" if self.name == "avg" else self.name

    def merge(self, one: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        count = one[1] + other[1]
        if self.name in ("min", "max"):
            return (min if self.name == "min" else max)(one[0], other[0]), count
        return one[0] + other[0] if self.name != "count" else count, count

    def result(self, part: tuple[Any, int] | None) -> Any:
        if part is None:
            return 0 if self.name == "count" else None
        if self.name == "avg":
            return part[0] / part[1]
        return part[1] if self.name == "count" else part[0]


def col(path: str) -> Expression:
    return Col(path)


def lit(value: Any) -> Expression:
    return value if isinstance(value, Expression) else Literal(value)
