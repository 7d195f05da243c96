"""Columns: `col("value.amount") > 10`. They become Python that computes a whole batch in one comprehension.

The names are `key`, `value` and paths into a JSON value. Null is as in SQL: what is compared with it or computed from
it is null, and null satisfies no filter. Methods of an expression name aggregates: `col("value.n").sum()`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.streams.errors import TopologyError

BINARY = {"=": "=="}  # where Python's name is another
ATTRIBUTES = "attributes_of_fields"  # of a type of values that are read into slots


class Expression:
    """`==` builds an expression, so expressions are compared by their text."""

    __hash__ = None  # type: ignore[assignment]

    def code(self, scope: Scope) -> str:
        """The expression in Python, of `key` and `value`."""
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

    def code(self, scope: Scope) -> str:
        found, fields = self.root, self.fields
        if self.root == "value" and fields and scope.attributes is not None:
            found = f"(None if value is None else value.{scope.attributes[fields[0]]})"
            fields = fields[1:]
        for field in fields:
            holder = scope.temporary()
            found = f"(None if ({holder} := {found}) is None else {holder}.get({field!r}))"
        return found

    def paths(self) -> list[str]:
        return [self.path]


class Literal(Expression):
    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)

    def code(self, scope: Scope) -> str:
        return scope.constant(self.value)

    def paths(self) -> list[str]:
        return []


class Binary(Expression):
    def __init__(self, name: str, left: Expression, right: Expression) -> None:
        self.name, self.left, self.right = name, left, right

    def __str__(self) -> str:
        return f"({self.left} {self.name} {self.right})"

    def code(self, scope: Scope) -> str:
        (left, take_left), (right, take_right) = scope.held(self.left), scope.held(self.right)
        missing = " or ".join(f"{take} is None" for take in (take_left, take_right) if take)
        found = f"{left} {BINARY.get(self.name, self.name)} {right}"
        return f"(None if {missing} else {found})" if missing else f"({found})"

    def paths(self) -> list[str]:
        return self.left.paths() + self.right.paths()


class Logic(Binary):
    def code(self, scope: Scope) -> str:
        left, right, decides = scope.temporary(), scope.temporary(), self.name == "or"
        takes = [f"({left} := {self.left.code(scope)})", f"({right} := {self.right.code(scope)})"]
        decided = " or ".join(f"{take} == {decides}" for take in takes)
        return f"({decides} if {decided} else None if {left} is None or {right} is None else {not decides})"


class Not(Expression):
    def __init__(self, inner: Expression) -> None:
        self.inner = inner

    def __str__(self) -> str:
        return f"not {self.inner}"

    def code(self, scope: Scope) -> str:
        held = scope.temporary()
        return f"(None if ({held} := {self.inner.code(scope)}) is None else not {held})"

    def paths(self) -> list[str]:
        return self.inner.paths()


class IsNull(Not):
    def __str__(self) -> str:
        return f"{self.inner} is null"

    def code(self, scope: Scope) -> str:
        return f"({self.inner.code(scope)} is None)"


class Scope:
    """The names in the Python that expressions become. `attributes` are those of values that were read into slots, by
    field; None where values are dictionaries."""

    def __init__(self, attributes: Mapping[str, str] | None = None) -> None:
        self.attributes = attributes
        self.constants: dict[str, Any] = {}
        self._temporaries = 0

    def temporary(self) -> str:
        self._temporaries += 1
        return f"t{self._temporaries}"

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def held(self, expression: Expression) -> tuple[str, str]:
        """What stands for an expression, and what computes it into that; nothing has to where it can't be null."""
        if isinstance(expression, Literal) and expression.value is not None:
            return expression.code(self), ""
        name = self.temporary()
        return name, f"({name} := {expression.code(self)})"


class OfRows:
    """A function of key and value that is asked for many rows at once, and one by one where that fails."""

    def all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        raise NotImplementedError


class Computed(OfRows):
    """Expressions as a function of key and value: of one, or of an object of several by name."""

    def __init__(self, expression: Expression | None = None, fields: Mapping[str, Expression] | None = None) -> None:
        self.expression, self.fields = expression, fields
        self._made: dict[type, Callable[[Any, Any], list[Any]]] = {}  # by the type of values

    def __getstate__(self) -> dict[str, Any]:
        return {"expression": self.expression, "fields": self.fields, "_made": {}}

    def __call__(self, key: Any, value: Any) -> Any:
        (found,) = self.all([key], [value])
        return found

    def all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """For many rows at once; raises if one fails."""
        kind = type(next((value for value in values if value is not None), None))
        function = self._made.get(kind)
        if function is None:
            function = self._made[kind] = self._compiled(getattr(kind, ATTRIBUTES, None))
        return function(keys, values)

    def paths(self) -> list[str]:
        return [path for one in self.expressions() for path in one.paths()]

    def expressions(self) -> list[Expression]:
        if self.fields is not None:
            return list(self.fields.values())
        return [] if self.expression is None else [self.expression]

    def _compiled(self, attributes: Mapping[str, str] | None) -> Callable[[Any, Any], list[Any]]:
        scope = Scope(attributes)
        if self.fields is not None:
            pairs = ", ".join(f"{name!r}: {one.code(scope)}" for name, one in self.fields.items())
            code = f"None if value is None else {{{pairs}}}"
        else:
            assert self.expression is not None
            code = self.expression.code(scope)
        reads_key = any(path.partition(".")[0] == "key" for path in self.paths())
        rows = "key, value in zip(keys, values)" if reads_key else "value in values"
        names = scope.constants
        exec(f"def computed(keys, values):\n    return [{code} for {rows}]", names)
        function: Callable[[Any, Any], list[Any]] = names["computed"]
        return function


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A column of an aggregate: its part of a group is (value, how many were not null)."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        return f"{self.name}({self.expression})"

    @functools.cached_property
    def computed(self) -> Computed:
        return Computed(self.expression)

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
