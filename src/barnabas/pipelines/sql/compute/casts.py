"""CAST, and the silent widening of a value to the type of its column."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from barnabas.pipelines.sql.compute import dates, java
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.types import SqlType

Cast = Callable[[Any], Any]
NUMBERS = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")
TIMES = {
    "TIMESTAMP": (dates.timestamp_text, dates.lenient_timestamp),
    "DATE": (dates.date_text, dates.date_of),
    "TIME": (dates.time_text, dates.time_of),
}


def identity(value: Any) -> Any:
    return value


def cast_between(given: SqlType, wanted: SqlType) -> Cast:
    """Refuses a cast that is not there when the statement is compiled."""
    if given == wanted or given.base == "NULL":
        return identity
    found = _cast(given, wanted)
    if found is None:
        raise SqlError(f"Cast of {given} to {wanted} is not supported.")
    return found


def _cast(given: SqlType, wanted: SqlType) -> Cast | None:
    if wanted.base == "STRING":
        return text_cast(given)
    if given.base == "STRING":
        return _from_text(wanted)
    if given.base in NUMBERS and wanted.base in NUMBERS:
        return _number(given, wanted)
    if given.base == "TIMESTAMP" and wanted.base == "DATE":
        return lambda ms: ms // dates.DAY_MS
    if given.base == "TIMESTAMP" and wanted.base == "TIME":
        return lambda ms: ms % dates.DAY_MS
    if given.base == "DATE" and wanted.base == "TIMESTAMP":
        return lambda days: days * dates.DAY_MS
    if given.base == wanted.base and given.base in ("ARRAY", "MAP", "STRUCT"):
        return _nested(given, wanted)
    return None


def _number(given: SqlType, wanted: SqlType) -> Cast:
    if wanted.base == "DECIMAL":
        return lambda value: java.fitted(java.to_decimal(value), wanted)
    if wanted.base == "DOUBLE":
        return float
    narrow = java.int32 if wanted.base == "INTEGER" else java.int64
    if given.base == "DOUBLE":
        return java.to_int32 if wanted.base == "INTEGER" else java.to_int64
    return lambda value: narrow(int(value))


def _from_text(wanted: SqlType) -> Cast | None:
    if wanted.base in TIMES:
        return TIMES[wanted.base][1]
    if wanted.base == "BOOLEAN":
        return _boolean
    if wanted.base in ("INTEGER", "BIGINT"):
        bits = 31 if wanted.base == "INTEGER" else 63
        return lambda text: _whole(text, bits)
    if wanted.base == "DOUBLE":
        return _double
    if wanted.base == "DECIMAL":
        return lambda text: java.fitted(_decimal(text), wanted)
    return None


def _boolean(text: str) -> bool:
    low = text.strip().lower()
    if not low or not any(word.startswith(low) for word in ("true", "yes", "false", "no")):
        raise EvaluationError(f"Invalid boolean: '{text}'")
    return low[0] in "ty"


def _whole(text: str, bits: int) -> int:
    try:
        found = int(text.strip())
    except ValueError:
        raise EvaluationError(f'For input string: "{text}"') from None
    if "_" in text or not -(1 << bits) <= found < 1 << bits:
        raise EvaluationError(f'For input string: "{text}"')
    return found


def _double(text: str) -> float:
    plain = text.strip()
    if plain.lower().lstrip("+-") in ("nan", "inf", "infinity") and plain.lstrip("+-") not in ("NaN", "Infinity"):
        raise EvaluationError(f'For input string: "{text}"')
    try:
        return float(plain.rstrip("dDfF") or "x")
    except ValueError:
        raise EvaluationError(f'For input string: "{text}"') from None


def _decimal(text: str) -> Decimal:
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        raise EvaluationError(f'"{text}" is no DECIMAL') from None
    if not found.is_finite():
        raise EvaluationError(f'"{text}" is no DECIMAL')
    return found


def text_cast(given: SqlType) -> Cast | None:
    if given.base in TIMES:
        return TIMES[given.base][0]
    if given.base == "DOUBLE":
        return java.double_text
    if given.base == "BYTES":
        return None
    if given.base == "STRUCT":
        inner = {name: nullable(cast_to_text(kind)) for name, kind in given.fields}
        return lambda value: (
            "Struct{"
            + ",".join(
                f"{name}={convert(value.get(name))}" for name, convert in inner.items() if value.get(name) is not None
            )
            + "}"
        )
    if given.base == "ARRAY" and given.element is not None:
        element = nullable(cast_to_text(given.element))
        return lambda value: f"[{', '.join('null' if one is None else element(one) for one in value)}]"
    if given.base == "MAP" and given.element is not None:
        one = nullable(cast_to_text(given.element))
        return lambda value: (
            "{" + ", ".join(f"{key}={'null' if item is None else one(item)}" for key, item in value.items()) + "}"
        )
    return java.text_of


def cast_to_text(given: SqlType) -> Cast:
    return text_cast(given) or java.text_of


def _nested(given: SqlType, wanted: SqlType) -> Cast | None:
    if given.base == "STRUCT":
        parts = {name: nullable(cast_between(given.field(name) or kind, kind)) for name, kind in wanted.fields}
        return lambda value: {name: convert(value.get(name)) for name, convert in parts.items()}
    assert given.element is not None
    assert wanted.element is not None
    element = nullable(cast_between(given.element, wanted.element))
    if given.base == "ARRAY":
        return lambda value: [element(one) for one in value]
    assert given.key is not None
    assert wanted.key is not None
    key = nullable(cast_between(given.key, wanted.key))
    return lambda value: {key(name): element(one) for name, one in value.items()}


def nullable(convert: Cast) -> Cast:
    return identity if convert is identity else lambda value: None if value is None else convert(value)
