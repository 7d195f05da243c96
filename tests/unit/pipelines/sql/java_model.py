"""A plain model of Java's values, written another way than the compiler: ctypes for width, Fraction for DECIMAL."""

from __future__ import annotations

import ctypes
import math
import random
from fractions import Fraction
from typing import Any

NULL_SHARE = 0.05


class Throws(Exception):
    """Java would have thrown."""


class Value:
    """A typed value: kind is int, long, double or (precision, scale)."""

    def __init__(self, text: str, kind: Any, value: Any) -> None:
        self.text, self.kind, self.value = text, kind, value


def wrapped(kind: str, number: int) -> int:
    return ctypes.c_int32(number).value if kind == "int" else ctypes.c_int64(number).value


def scaled(number: Fraction, precision: int, scale: int) -> Fraction:
    shifted = abs(number) * 10**scale
    whole = shifted.numerator // shifted.denominator
    if shifted - whole >= Fraction(1, 2):
        whole += 1
    if whole >= 10**precision:
        raise Throws("overflow")
    return Fraction(-whole if number < 0 else whole, 10**scale)


def as_decimal(kind: Any) -> tuple[int, int]:
    return {"int": (10, 0), "long": (19, 0)}.get(kind, kind)


def arithmetic(operator: str, left: Value, right: Value) -> tuple[Any, Any]:
    """Kind and value of the result."""
    kinds = (left.kind, right.kind)
    if "double" in kinds:
        return "double", on_doubles(operator, left.value, right.value)
    if any(isinstance(one, tuple) for one in kinds):
        return on_decimals(operator, left, right)
    kind = "long" if "long" in kinds else "int"
    if left.value is None or right.value is None:
        return kind, None
    a, b = left.value, right.value
    if operator in "/%":
        if b == 0:
            raise Throws("zero")
        quotient = int(Fraction(a, b))  # towards zero
        return kind, wrapped(kind, quotient if operator == "/" else a - quotient * b)
    return kind, wrapped(kind, {"+": a + b, "-": a - b, "*": a * b}[operator])


def on_doubles(operator: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    a, b = float(a), float(b)
    if operator in "/%" and b == 0:
        if operator == "%" or a == 0 or math.isnan(a):
            return math.nan
        return math.inf if (a > 0) == (math.copysign(1, b) > 0) else -math.inf
    if operator == "%":
        if math.isinf(a) or math.isnan(a) or math.isnan(b):
            return math.nan
        return a if math.isinf(b) else math.fmod(a, b)
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[operator]


def on_decimals(operator: str, left: Value, right: Value) -> tuple[Any, Any]:
    (p1, s1), (p2, s2) = as_decimal(left.kind), as_decimal(right.kind)
    if operator in "+-":
        scale = max(s1, s2)
        kind = (max(p1 - s1, p2 - s2) + scale + 1, scale)
    elif operator == "*":
        kind = (p1 + p2 + 1, s1 + s2)
    elif operator == "/":
        scale = max(6, s1 + p2 + 1)
        kind = (p1 - s1 + s2 + scale, scale)
    else:
        kind = (max(min(p1 - s1, p2 - s2) + max(s1, s2), 1), max(s1, s2))
    if left.value is None or right.value is None:
        return kind, None
    a, b = Fraction(left.value), Fraction(right.value)
    if operator in "/%" and b == 0:
        raise Throws("zero")
    if operator == "%":
        found = a - b * int(a / b)
    else:
        found = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[operator]
    return kind, scaled(found, *kind)


def literal(random_: random.Random) -> Value:
    kind = random_.choice(["int", "int", "long", "double", "decimal"])
    if random_.random() < NULL_SHARE:
        name = {"int": "INT", "long": "BIGINT", "double": "DOUBLE", "decimal": "DECIMAL(6, 2)"}[kind]
        return Value(f"CAST(NULL AS {name})", (6, 2) if kind == "decimal" else kind, None)
    if kind == "int":
        number = random_.choice([0, 1, -1, 2, 3, 7, -7, 2147483647, -2147483647, random_.randint(-1000, 1000)])
        return Value(f"({number})", kind, number)
    if kind == "long":
        number = random_.choice([2**31, -(2**40), 2**63 - 1, random_.randint(2**31, 2**62)])
        return Value(f"({number})", kind, number)
    if kind == "double":
        real = random_.choice([0.0, 1.0, -2.5, 1e10, 3.25, random_.uniform(-100, 100)])
        return Value(f"({real:.17e})", kind, real)
    scale = random_.randint(1, 3)
    digits = random_.randint(10**scale, 10 ** (scale + 2))
    text = f"{digits // 10**scale}.{digits % 10**scale:0{scale}}"
    return Value(text, (len(str(digits)), scale), Fraction(digits, 10**scale))


def expression(random_: random.Random, depth: int = 0) -> Value:
    """A random arithmetic expression with what it gives. Raises Throws where Java would."""
    if depth > 2 or random_.random() < 0.3:
        return literal(random_)
    left, right = expression(random_, depth + 1), expression(random_, depth + 1)
    operator = random_.choice("+-*/%")
    text = f"({left.text} {operator} {right.text})"
    kind, value = arithmetic(operator, left, right)
    return Value(text, kind, value)
