"""JSON as Confluent's registry reads and prints it: no spaces, and Java's way with numbers and control characters.

The text of a schema is hashed into its guid, so it has to be the same to the byte.
"""

from __future__ import annotations

import json
import re
from typing import Any

from barnabas.client.schemas.nesting import is_too_deep

Json = Any

CONTROL = re.compile(r"\\u00[0-9a-f]{2}")
SHORTEST_PLAIN, LONGEST_PLAIN = 1e-3, 1e7  # Java prints doubles outside with an exponent


class InvalidJson(ValueError):
    pass


def read_json(text: str) -> Json:
    if is_too_deep(text):
        raise InvalidJson("it is nested too deeply")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidJson(str(error)) from None


def _refuse_constant(name: str) -> None:
    raise InvalidJson(f"{name} is not JSON")


def write_json(value: Json) -> str:
    """Compact, keys in the order they have."""
    if isinstance(value, str):
        return write_string(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return write_double(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{write_string(key)}:{write_json(each)}" for key, each in value.items()) + "}"
    return "[" + ",".join(map(write_json, value)) + "]"


def write_string(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return CONTROL.sub(lambda found: "\\u" + found[0][2:].upper(), quoted) if "\\u00" in quoted else quoted


def write_double(value: float) -> str:
    """As Java's Double.toString: `1.0`, `1.0E10`, `1.5E-5`."""
    size = abs(value)
    if value != value or size == float("inf"):
        return '"NaN"' if value != value else ('"Infinity"' if value > 0 else '"-Infinity"')
    if value == 0 or SHORTEST_PLAIN <= size < LONGEST_PLAIN:
        plain = repr(value)
        return plain if "e" not in plain else f"{value:.20f}".rstrip("0")
    digits, exponent = f"{value!r}", 0
    sign = "-" if value < 0 else ""
    mantissa, _, power = digits.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    exponent = int(power or 0) + len(whole) - 1
    all_digits = whole + fraction
    stripped = all_digits.lstrip("0")
    exponent -= len(all_digits) - len(stripped)
    stripped = stripped.rstrip("0") or "0"
    return f"{sign}{stripped[0]}.{stripped[1:] or '0'}E{exponent}"
