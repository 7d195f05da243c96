"""What a function takes and gives, in a line: `"STRING, INTEGER, INTEGER? -> STRING"`.

A single letter stands for any type, the same wherever it is; NUM for any number, the widest of those given; `?` marks
what may be left out, `*` what may be repeated. Whole numbers fit where wider ones are wanted, as in Java.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from barnabas.pipelines.sql.types import ALIASES, NULL, SqlType, array, common, decimal, fits, map_of


@dataclass(frozen=True)
class Parameter:
    kind: SqlType
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Signature:
    parameters: tuple[Parameter, ...]
    returns: SqlType

    def __str__(self) -> str:
        shown = [f"{one.kind}{'...' if one.repeated else ''}" for one in self.parameters]
        return f"({', '.join(shown)})"

    def match(self, given: list[SqlType]) -> tuple[int, dict[str, SqlType]] | None:
        """How many arguments had to be widened, and what letters stand for."""
        wanted = self.expanded(len(given))
        if wanted is None:
            return None
        bound: dict[str, SqlType] = {}
        widened = 0
        for one, kind in zip(wanted, given, strict=True):
            cost = _match(kind, one.kind, bound)
            if cost is None:
                return None
            widened += cost
        return widened, bound

    def expanded(self, count: int) -> list[Parameter] | None:
        fixed = [one for one in self.parameters if not one.repeated]
        repeated = next((one for one in self.parameters if one.repeated), None)
        if repeated is not None:
            missing = count - len(fixed)
            if missing < 0:
                return None
            at = self.parameters.index(repeated)
            return [*self.parameters[:at], *[repeated] * missing, *self.parameters[at + 1 :]]
        needed = sum(not one.optional for one in fixed)
        return fixed[:count] if needed <= count <= len(fixed) else None


def _match(given: SqlType, wanted: SqlType, bound: dict[str, SqlType]) -> int | None:
    if wanted.base == "ANY":
        return 1
    if len(wanted.base) == 1 or wanted.base == "NUM":
        if wanted.base == "NUM" and not given.is_numeric and given != NULL:
            return None
        known = bound.get(wanted.base, NULL)
        together = common(known, given)
        if together is None:
            return None
        bound[wanted.base] = together
        return 0 if together == given or known == NULL else 1
    if given == NULL:
        return 0
    if wanted.base == given.base:
        if wanted.base == "ARRAY":
            assert given.element is not None
            assert wanted.element is not None
            return _match(given.element, wanted.element, bound)
        if wanted.base == "MAP":
            assert given.key is not None
            assert given.element is not None
            assert wanted.key is not None
            assert wanted.element is not None
            key = _match(given.key, wanted.key, bound)
            value = _match(given.element, wanted.element, bound)
            return None if key is None or value is None else key + value
        return 0
    if wanted.base == "DECIMAL":
        return 2 if given.base in ("INTEGER", "BIGINT") else None
    return 1 if fits(given, wanted) else None


def bind(kind: SqlType, bound: dict[str, SqlType]) -> SqlType:
    """The type with its letters replaced."""
    if len(kind.base) == 1 or kind.base == "NUM":
        return bound.get(kind.base, NULL)
    if kind.base == "ARRAY" and kind.element is not None:
        return array(bind(kind.element, bound))
    if kind.base == "MAP" and kind.element is not None and kind.key is not None:
        return map_of(bind(kind.key, bound), bind(kind.element, bound))
    return kind


@functools.cache
def parse_signature(text: str) -> Signature:
    given, _, returns = text.partition("->")
    parameters = []
    for one in _split(given):
        optional, repeated = one.endswith("?"), one.endswith("*")
        parameters.append(Parameter(_type(one.rstrip("?*")), optional, repeated))
    return Signature(tuple(parameters), _type(returns.strip()))


def _type(text: str) -> SqlType:
    text = text.strip()
    if text.startswith("ARRAY<"):
        return array(_type(text[6:-1]))
    if text.startswith("MAP<"):
        key, value = _split(text[4:-1])
        return map_of(_type(key), _type(value))
    if text == "DECIMAL":
        return decimal(38, 10)
    return SqlType(ALIASES.get(text, text))


def _split(text: str) -> list[str]:
    found, depth, current = [], 0, ""
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            found.append(current.strip())
            current = ""
        else:
            current += letter
    return [*found, current.strip()] if current.strip() else found
