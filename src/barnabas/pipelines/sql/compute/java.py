"""Java's arithmetic: numbers of fixed width that overflow silently, division that truncates, text of doubles.

A function gets None for null and gives None where Java's code would have met a null.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from barnabas.pipelines.sql.types import SqlType

EXACT = Context(prec=200, rounding=ROUND_HALF_UP, Emax=10**6, Emin=-(10**6))


class EvaluationError(ValueError):
    """What Java would have thrown: the expression is null, and the processing log is told."""


def int32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def int64(value: int) -> int:
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def quotient(left: int, right: int) -> int:
    """Towards zero."""
    if right == 0:
        raise EvaluationError("/ by zero")
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def remainder(left: int, right: int) -> int:
    """With the sign of the dividend."""
    return left - quotient(left, right) * right


def divide_doubles(left: float, right: float) -> float:
    if right == 0:
        if left == 0 or left != left:
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def remainder_doubles(left: float, right: float) -> float:
    if right == 0 or math.isinf(left) or left != left or right != right:
        return math.nan
    return math.fmod(left, right)


def saturated(value: float, low: int, high: int) -> int:
    """A double as a whole number: (int) d."""
    if value != value:
        return 0
    if value >= high:
        return high
    if value <= low:
        return low
    return int(value)


def to_int32(value: float) -> int:
    return saturated(value, -(1 << 31), (1 << 31) - 1)


def to_int64(value: float) -> int:
    return saturated(value, -(1 << 63), (1 << 63) - 1)


def double_text(value: float) -> str:
    """Double.toString."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    value = abs(value)
    if value == 0:
        return sign + "0.0"
    if value == 5e-324:
        return sign + "4.9E-324"  # Java gives two digits at least
    digits, exponent = _digits(value)
    if 1e-3 <= value < 1e7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        whole, rest = digits[:exponent].ljust(exponent, "0"), digits[exponent:]
        return f"{sign}{whole}.{rest or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits(value: float) -> tuple[str, int]:
    """The shortest digits, and where the point stands: 0.DIGITS * 10^exponent."""
    _, found, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, found)).lstrip("0")
    point = len(text) + int(exponent)
    return text.rstrip("0") or "0", point


def fitted(value: Decimal, kind: SqlType) -> Decimal:
    """With the scale of a DECIMAL, rounded half up; what has too many digits is refused."""
    try:
        found = value.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    except InvalidOperation:
        raise EvaluationError(f"Numeric field overflow: {value} is no {kind}") from None
    whole = max(found.adjusted() + 1, 0) if found else 0
    if whole > kind.precision - kind.scale:
        raise EvaluationError(
            f"Numeric field overflow: A field with precision {kind.precision} and scale {kind.scale} must round to an "
            f"absolute value less than 10^{kind.precision - kind.scale}. Got {value:f}"
        )
    return found


def to_decimal(value: Any) -> Decimal:
    if isinstance(value, float):
        if value != value or math.isinf(value):
            raise EvaluationError(f"{double_text(value)} is no DECIMAL")
        return Decimal(repr(value))
    return value if isinstance(value, Decimal) else Decimal(value)


def text_of(value: Any) -> str:
    """What Java's toString gives for a value inside another one."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text_of(key)}={text_of(one)}" for key, one in value.items()) + "}"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def is_less(one: Any, other: Any) -> bool:
    """The order of values of one type: false before true, NaN last, arrays and structs by their parts."""
    if isinstance(one, float) and one != one:
        return False
    if isinstance(other, float) and other != other:
        return True
    return bool(one < other)


def frozen(value: Any) -> Any:
    """A value by which can be grouped: lists and dicts as tuples."""
    if type(value) is str or type(value) is int:
        return value
    if isinstance(value, list):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple(sorted(((key, frozen(one)) for key, one in value.items()), key=repr))
    if isinstance(value, float) and value != value:
        return "NaN"
    return value
