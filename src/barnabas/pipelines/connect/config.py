"""Declared settings of connectors, transformations, converters and the worker: Connect's ConfigDef.

A `Setting` has a type, a default and a check; `Definition.parse` gives typed values and raises ConfigError,
`Definition.validate` gives every mistake in the shape of `PUT /connector-plugins/X/config/validate`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.connect.errors import ConfigError

REQUIRED: Any = object()
Check = Callable[[str, Any], None]
HIDDEN = "[hidden]"
BOUNDS = {"SHORT": 15, "INT": 31, "LONG": 63}


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    type: str = "STRING"  # STRING, INT, LONG, SHORT, DOUBLE, BOOLEAN, LIST, CLASS, PASSWORD
    default: Any = REQUIRED
    importance: str = "HIGH"
    doc: str = ""
    check: Check | None = None
    group: str | None = None
    display: str | None = None
    width: str = "NONE"
    recommended: Sequence[str] = ()

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


def parse_value(name: str, kind: str, value: Any) -> Any:
    if value is None:
        return None
    text = str(value).strip() if not isinstance(value, bool) else str(value).lower()
    if kind == "BOOLEAN":
        if text.lower() not in ("true", "false"):
            raise ConfigError("Expected value to be either true or false", name, value)
        return text.lower() == "true"
    if kind in BOUNDS:
        if not re.fullmatch(r"[+-]?\d+", text) or not -(1 << BOUNDS[kind]) <= int(text) < 1 << BOUNDS[kind]:
            raise ConfigError(f"Not a number of type {kind}", name, value)
        return int(text)
    if kind == "DOUBLE":
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"Not a number of type {kind}", name, value) from None
    if kind == "LIST":
        return [each.strip() for each in text.split(",")] if text else []
    return str(value) if kind == "PASSWORD" else text


@dataclass(frozen=True, slots=True)
class Checked:
    """A setting with its value and what is wrong with it."""

    setting: Setting
    value: Any
    errors: list[str]


class Definition:
    def __init__(self, settings: Iterable[Setting] = ()) -> None:
        self.settings = {each.name: each for each in settings}

    def __add__(self, other: Definition) -> Definition:
        return Definition([*self.settings.values(), *other.settings.values()])

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._value(setting, given) for name, setting in self.settings.items()}

    def check(self, given: Mapping[str, Any]) -> list[Checked]:
        found = []
        for setting in self.settings.values():
            errors: list[str] = []
            try:
                self._value(setting, given)
            except ConfigError as error:
                errors.append(str(error))
                if "Not a number" in errors[0] and setting.check is not None:  # Connect checks the missing number too
                    errors.append(str(ConfigError("Value must be non-null", setting.name)))
            raw = given.get(setting.name)
            if raw is None and not setting.required:
                raw = setting.default
            found.append(Checked(setting, raw, errors))
        return found

    def mistyped(self, given: Iterable[str], also: Iterable[str] = ()) -> dict[str, str]:
        """Names that we do not know, and the one we know, not given itself, that was most likely meant."""
        names = {*self.settings, *also}
        found = {}
        for name in given:
            if name in names:
                continue
            alike = sorted((slips(name, each), each) for each in names.difference(given))
            if alike and alike[0][0] <= (2 if len(name) >= 8 else 1):
                found[name] = alike[0][1]
        return found

    @staticmethod
    def _value(setting: Setting, given: Mapping[str, Any]) -> Any:
        if setting.name in given:
            value = parse_value(setting.name, setting.type, given[setting.name])
        elif setting.required:
            raise ConfigError(f'Missing required configuration "{setting.name}" which has no default value.')
        else:
            value = setting.default
        if setting.check is not None:
            setting.check(setting.name, value)
        return value


def slips(one: str, other: str) -> int:
    """How many letters are missing, too many, wrong or swapped with their neighbour; 3 stands for more."""
    if abs(len(one) - len(other)) > 2:
        return 3
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        older, before, row = before, row, [at]
        for to, wanted in enumerate(other, 1):
            least = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                least = min(least, older[to - 2] + 1)
            row.append(least)
    return min(row[-1], 3)


def one_of(*choices: str, ignore_case: bool = False) -> Check:
    def check(name: str, value: Any) -> None:
        same = value in choices or (ignore_case and str(value).lower() in [each.lower() for each in choices])
        if not same:
            listed = ", ".join(choices)
            text = (
                f"String must be one of (case insensitive): {listed}"
                if ignore_case
                else (f"String must be one of: {listed}")
            )
            raise ConfigError(text, name, value)

    return check


def at_least(least: float) -> Check:
    def check(name: str, value: Any) -> None:
        if value is not None and value < least:
            raise ConfigError(f"Value must be at least {least:g}", name, value)

    return check


def not_empty(name: str, value: Any) -> None:
    if not value:
        raise ConfigError("String must be non-empty" if isinstance(value, str) else "Empty list", name, value)


def distinct(name: str, value: Any) -> None:
    if not value:
        raise ConfigError("must not be empty", name, value)
    if len(set(value)) < len(value):
        raise ConfigError("must not contain duplicate values", name, value)


def regex(name: str, value: Any) -> None:
    try:
        re.compile(java_regex(str(value)))
    except re.error as error:
        raise ConfigError(f"Invalid regex: {error}", name, value) from None


def java_regex(pattern: str) -> str:
    """Java's named groups and possessive quantifiers are Python's, but for the spelling of the names."""
    return re.sub(r"\(\?<([A-Za-z]\w*)>", r"(?P<\1>", pattern)


def java_replacement(replacement: str) -> str:
    r"""`$1` and `${name}` for Python's `\g<1>`; a backslash quotes what follows it."""
    text, at = "", 0
    while at < len(replacement):
        char = replacement[at]
        group = re.compile(r"\$(?:(\d)|\{(\w+)\})").match(replacement, at)
        if char == "\\" and at + 1 < len(replacement):
            text += replacement[at + 1].replace("\\", r"\\")
            at += 2
        elif group is not None:
            text += rf"\g<{group[1] or group[2]}>"
            at = group.end()
        else:
            text += char
            at += 1
    return text


def with_prefix(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in given.items() if name.startswith(prefix)}
