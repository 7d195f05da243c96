"""Values as Java's toString() prints them: what StringConverter and Cast write."""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np

from barnabas.pipelines.connect.data.schema import Float32


def java_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_float(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{java_text(key)}={java_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(java_text, value)) + "]"
    if isinstance(value, datetime):
        return value.strftime("%a %b %d %H:%M:%S UTC ") + str(value.year)
    if isinstance(value, bytes):
        return f"[B@{abs(hash(value)) & 0xFFFFFFFF:x}"
    if isinstance(value, Decimal):
        return java_decimal(value)
    return str(value)


def java_float(value: float, *, single: bool = False) -> str:
    """Double.toString, or Float.toString of a Float32 or with `single`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    short = str(np.float32(value)) if single or isinstance(value, Float32) else repr(float(value))
    sign, digits, exponent = Decimal(short).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # digits before the point
    minus = "-" if sign else ""
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def java_decimal(value: Decimal) -> str:
    """BigDecimal.toString: Python's has the same rules."""
    return re.sub(r"E\+?(-?\d+)$", lambda found: f"E{'' if found[1].startswith('-') else '+'}{found[1]}", str(value))
