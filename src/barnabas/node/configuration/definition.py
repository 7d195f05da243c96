"""What a configuration key is: its type, its default, what it may be, and how text becomes a value and text again.

Types, bounds and the wording of a refusal ("Invalid value x for configuration y: ...") are Kafka's; clients show them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
Check: TypeAlias = Callable[[str, Value], None]


class ConfigError(ValueError):
    """A configuration that cannot be used. The message is one sentence for whoever wrote it."""


class ConfigType(IntEnum):
    """Kafka's codes in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Who may change a broker's key while it runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


BOOLEAN, STRING, INT, SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
CLASS, PASSWORD = ConfigType.CLASS, ConfigType.PASSWORD
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Update.READ_ONLY, Update.PER_BROKER, Update.CLUSTER_WIDE

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
MINUTE_MS = 60_000
HOUR_MS = 3_600_000

_BITS = {INT: 31, SHORT: 15, LONG: 63}
_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_CONTROL_AND_SPACE = "".join(map(chr, range(33)))


class Definition:
    """One key. `from_broker` names the broker's keys that stand in for a topic's or group's where it has none of its
    own, the strongest first, each with the factor that turns its unit into ours."""

    __slots__ = ("check", "default", "doc", "from_broker", "internal", "name", "type", "update")

    def __init__(
        self,
        name: str,
        type: ConfigType,
        default: Value,
        doc: str,
        check: Check | None = None,
        *,
        update: Update = READ_ONLY,
        internal: bool = False,
        from_broker: tuple[tuple[str, int], ...] = (),
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.doc = doc
        self.check = check
        self.update = update
        self.internal = internal
        self.from_broker = from_broker

    @property
    def sensitive(self) -> bool:
        return self.type is PASSWORD

    def parse(self, text: str) -> Value:
        value = parse_type(self.name, self.type, text)
        if self.check is not None:
            self.check(self.name, value)
        return value

    @property
    def default_text(self) -> str | None:
        return to_text(self.default)


def invalid(name: str, value: object, why: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name}: {why}")


def parse_type(name: str, type: ConfigType, text: str) -> Value:
    text = text.strip(_CONTROL_AND_SPACE)
    if type in _BITS:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if digits.isdecimal() and -(1 << _BITS[type]) <= (number := int(text)) < (1 << _BITS[type]):
            return number
        raise invalid(name, text, f"Not a number of type {type.name}")
    if type is BOOLEAN:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise invalid(name, text, "Expected value to be either true or false")
    if type is DOUBLE:
        return _parse_double(name, text)
    if type is LIST:
        return tuple(dict.fromkeys(entry.strip() for entry in text.split(","))) if text else ()
    return text


def _parse_double(name: str, text: str) -> float:
    if text in _DOUBLES:
        return _DOUBLES[text]
    number = text[:-1] if text[-1:] in ("f", "F", "d", "D") else text
    try:
        if not number.strip("+-.0123456789eE"):
            return float(number)
    except ValueError:
        pass
    raise invalid(name, text, "Not a number of type DOUBLE")


def to_text(value: Value) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return double_text(value)
    return str(value)


def double_text(value: float) -> str:
    """As Java writes it: 0.5, but 1.0E10 and 1.0E-5."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{int(exponent) + len(rest)}"


def at_least(lowest: float) -> Check:
    return between(lowest, math.inf)


def between(lowest: float, highest: float) -> Check:
    def check(name: str, value: Value) -> None:
        if not isinstance(value, (int, float)):
            raise invalid(name, value, "Value must be non-null")
        if value < lowest:
            raise invalid(name, to_text(value), f"Value must be at least {lowest}")
        if value > highest:
            raise invalid(name, to_text(value), f"Value must be no more than {highest}")

    return check


def between_or(lowest: int, highest: int, other: int) -> Check:
    def check(name: str, value: Value) -> None:
        if not isinstance(value, int) or not (lowest <= value <= highest or value == other):
            raise invalid(name, value, f"Value must be between {lowest} and {highest} or equal to {other}")

    return check


def one_of(*allowed: str) -> Check:
    def check(name: str, value: Value) -> None:
        if value not in allowed:
            raise invalid(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_any_case(*allowed: str) -> Check:
    def check(name: str, value: Value) -> None:
        if str(value).upper() not in allowed:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


def each_of(*allowed: str) -> Check:
    def check(name: str, value: Value) -> None:
        entries(name, value)
        for entry in value if isinstance(value, tuple) else ():
            if entry not in allowed:
                raise invalid(name, entry, f"String must be one of: {', '.join(allowed)}")

    return check


def entries(name: str, value: Value) -> None:
    """A list whose entries are not empty; the list itself may be."""
    if isinstance(value, tuple) and "" in value:
        raise ConfigError(f"Configuration '{name}' values must not be empty.")


def some_entries(name: str, value: Value) -> None:
    if value == ():
        raise ConfigError(f"Configuration '{name}' must not be empty.")
    entries(name, value)


def some_of(*allowed: str) -> Check:
    each = each_of(*allowed)

    def check(name: str, value: Value) -> None:
        some_entries(name, value)
        each(name, value)

    return check


def not_empty(name: str, value: Value) -> None:
    if value == "":
        raise invalid(name, value, "String must be non-empty")


def throttled_replicas(name: str, value: Value) -> None:
    if isinstance(value, tuple) and value not in ((), ("*",)):
        for entry in value:
            partition, _, broker = entry.partition(":")
            if not partition.isdecimal() or not broker.isdecimal():
                raise invalid(
                    name,
                    f"[{', '.join(value)}]",
                    f"{name} must be '*' or a list like partition:broker,partition:broker",
                )


def share_offset_reset(name: str, value: Value) -> None:
    text = str(value)
    if text in ("earliest", "latest") or _is_duration(text.removeprefix("by_duration:"), text):
        return
    raise invalid(name, text, "The value must be 'earliest', 'latest' or 'by_duration:' and a duration such as PT1H")


def _is_duration(duration: str, text: str) -> bool:
    if duration == text:
        return False
    pattern = r"P(?=.)(?:[+]?\d+D)?(?:T(?=.)(?:[+]?\d+H)?(?:[+]?\d+M)?(?:[+]?\d+(?:[.,]\d{0,9})?S)?)?"
    return re.fullmatch(pattern, duration, re.IGNORECASE) is not None
