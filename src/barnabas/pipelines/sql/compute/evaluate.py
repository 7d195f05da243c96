"""What compiled expressions call. Names are short: they stand in generated code."""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from typing import Any

from barnabas.pipelines.sql.compute import java
from barnabas.pipelines.sql.compute.casts import cast_between
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.types import SqlType


class Caster:
    """A cast that can be pickled."""

    def __init__(self, given: SqlType, wanted: SqlType) -> None:
        self.types = (given, wanted)
        self.convert = cast_between(given, wanted)

    def __reduce__(self) -> Any:
        return Caster, self.types

    def __call__(self, value: Any) -> Any:
        return None if value is None else self.convert(value)


class FunctionCall:
    """A function of the registry that can be pickled: found again by name and number of its variant."""

    def __init__(self, name: str, number: int, types: tuple[SqlType, ...]) -> None:
        from barnabas.pipelines.sql.compute.registry import all_functions

        self.place = (name, number, types)
        variant = all_functions()[name].variants[number]
        call = functools.partial(variant.call, list(types)) if variant.typed else variant.call
        self.call = call if variant.nulls else _strict(call)

    def __reduce__(self) -> Any:
        return FunctionCall, self.place

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


def _strict(call: Any) -> Any:
    def strict(*arguments: Any) -> Any:
        return None if None in arguments or any(one is None for one in arguments) else call(*arguments)

    return strict


class PythonFunction:
    """CREATE FUNCTION ... AS 'module:function': imported where it is called."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._call: Any = None

    def __reduce__(self) -> Any:
        return PythonFunction, (self.place,)

    def found(self) -> Any:
        import importlib

        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)

    def __call__(self, *arguments: Any) -> Any:
        if self._call is None:
            self._call = self.found()
        return self._call(*arguments)


def truth(value: Any) -> bool:
    if value is None:
        raise EvaluationError("a condition is null")
    return bool(value)


def safe(compute: Any) -> Any:
    """A part of an expression that is null if it can't be computed."""
    try:
        return compute()
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
        return None


def missing() -> Any:
    raise EvaluationError("a part of it is null")


def present(value: Any) -> Any:
    return missing() if value is None else value


def exact(value: float | None) -> Any:
    """A DOUBLE as the shortest decimal number that stands for it."""
    return value if value is None or value - value != 0 else Decimal(repr(value))


def divide(left: Any, right: Any, kind: SqlType) -> Any:
    if left is None or right is None:
        return None
    if kind.base == "DOUBLE":
        return java.divide_doubles(float(left), float(right))
    if kind.base == "DECIMAL":
        if not right:
            raise EvaluationError("/ by zero")
        return java.fitted(java.EXACT.divide(Decimal(left), Decimal(right)), kind)
    return _narrow(java.quotient(left, right), kind)


def modulo(left: Any, right: Any, kind: SqlType) -> Any:
    if left is None or right is None:
        return None
    if kind.base == "DOUBLE":
        return java.remainder_doubles(float(left), float(right))
    if kind.base == "DECIMAL":
        if not right:
            raise EvaluationError("/ by zero")
        return java.fitted(java.EXACT.remainder(Decimal(left), Decimal(right)), kind)
    return _narrow(java.remainder(left, right), kind)


def decimal_sum(left: Any, right: Any, kind: SqlType) -> Any:
    return None if left is None or right is None else java.fitted(java.EXACT.add(Decimal(left), Decimal(right)), kind)


def decimal_difference(left: Any, right: Any, kind: SqlType) -> Any:
    return (
        None if left is None or right is None else java.fitted(java.EXACT.subtract(Decimal(left), Decimal(right)), kind)
    )


def decimal_product(left: Any, right: Any, kind: SqlType) -> Any:
    if left is None or right is None:
        return None
    return java.fitted(java.EXACT.multiply(Decimal(left), Decimal(right)), kind)


def _narrow(value: int, kind: SqlType) -> int:
    return java.int32(value) if kind.base == "INTEGER" else java.int64(value)


def same(left: Any, right: Any) -> bool:
    """IS NOT DISTINCT FROM."""
    if left is None or right is None:
        return left is None and right is None
    return bool(left == right)


def element(values: list[Any] | None, index: int | None) -> Any:
    if values is None or index is None:
        return None
    at = index - 1 if index > 0 else len(values) + index
    return values[at] if 0 <= at < len(values) else None


def entry(values: dict[Any, Any] | None, key: Any) -> Any:
    return None if values is None else values.get(key)


def field(value: dict[str, Any] | None, name: str) -> Any:
    return None if value is None else value.get(name)


@functools.lru_cache(256)
def like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    found: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == escape and at + 1 < len(pattern):
            at += 1
            found.append(re.escape(pattern[at]))
        else:
            found.append({"%": ".*", "_": "."}.get(letter, re.escape(letter)))
        at += 1
    return re.compile("".join(found), re.DOTALL)


def like(text: str | None, pattern: str | None, escape: str | None) -> bool | None:
    if text is None or pattern is None:
        return None
    return like_pattern(pattern, escape).fullmatch(text) is not None


def transform_array(values: Any, change: Any) -> Any:
    return None if values is None else [change(one) for one in values]


def transform_map(values: Any, key: Any, value: Any) -> Any:
    if values is None:
        return None
    found = {key(name, one): value(name, one) for name, one in values.items()}
    if len(found) < len(values):
        raise EvaluationError("TRANSFORM gives the same key twice")
    return found


def filter_array(values: Any, wanted: Any) -> Any:
    return None if values is None else [one for one in values if wanted(one)]


def filter_map(values: Any, wanted: Any) -> Any:
    return None if values is None else {name: one for name, one in values.items() if wanted(name, one)}


def reduce_array(values: Any, state: Any, change: Any) -> Any:
    if state is None:
        return None
    for one in values or ():
        state = change(state, one)
    return state


def reduce_map(values: Any, state: Any, change: Any) -> Any:
    if state is None:
        return None
    for name, one in (values or {}).items():
        state = change(state, name, one)
    return state


int32, int64 = java.int32, java.int64
