"""JSON in text."""

from __future__ import annotations

import base64
import functools
import json
import re
from decimal import Decimal
from typing import Any

from barnabas.pipelines.sql.compute import dates, java
from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.compute.registry import function
from barnabas.pipelines.sql.types import SqlType

MISSING = object()


class _Number(str):
    """A number as it was written."""


def read(text: str) -> Any:
    try:
        return DECODER.raw_decode(text.lstrip())[0]  # as Java's reader, which does not look behind the value
    except (ValueError, RecursionError):
        raise EvaluationError("Invalid JSON") from None


def _refused(word: str) -> Any:
    raise ValueError(word)


DECODER = json.JSONDecoder(parse_float=_Number, parse_constant=_refused)


def written(value: Any) -> str:
    """JSON without blanks; numbers as they were written."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{written(one)}" for key, one in value.items()) + "}"
        )
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, float):
        return java.double_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


def shown(value: Any) -> str | None:
    """A value as text: strings without quotes."""
    if value is None:
        return None
    if isinstance(value, str) and not isinstance(value, _Number):
        return value
    return written(value)


@function("EXTRACTJSONFIELD", "STRING, STRING -> STRING")
def extract_json_field(text: str, path: str) -> str | None:
    """What is at a path of a JSON text: EXTRACTJSONFIELD(text, '$.log.instance[0]')."""
    found = at_path(_lenient(text), path)
    return None if found is MISSING else shown(found)


def _lenient(text: str) -> Any:
    try:
        return read(text)
    except EvaluationError:
        return MISSING


PATH_STEP = re.compile(r"""\.([^.\[\]]+)|\[(?:(\w+)|'([^']*)'|"((?:[^"\\]|\\["\\])*)")\]""")


@functools.lru_cache(512)
def steps_of(path: str) -> tuple[str, ...]:
    """Names, and numbers of members: `$.name`, `$[0]`, `$["a name"]`."""
    if not path.startswith("$"):
        raise EvaluationError(f"JSON path '{path}' must start with '$'.")
    found: list[str] = []
    at = 1
    while at < len(path):
        match = PATH_STEP.match(path, at)
        if match is None:
            raise EvaluationError(f"Invalid JSON path '{path}'")
        name, unquoted, single, quoted = match.groups()
        found.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else name or unquoted or single or "")
        at = match.end()
    return tuple(found)


def at_path(value: Any, path: str) -> Any:
    for step in steps_of(path):
        if isinstance(value, list):
            if not step.isdecimal() or int(step) >= len(value):
                return MISSING
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return MISSING
    return value


@function("IS_JSON_STRING", "STRING -> BOOLEAN", nulls=True)
def is_json_string(text: str | None) -> bool:
    """Whether a text is JSON."""
    return text is not None and bool(text.strip()) and _lenient(text) is not MISSING


@function("JSON_ARRAY_CONTAINS", "STRING, T -> BOOLEAN", nulls=True)
def json_array_contains(text: str | None, wanted: Any) -> bool:
    """Whether a value is in a JSON array."""
    found = MISSING if text is None else _lenient(text)
    if not isinstance(found, list):
        return False
    return any(_same(one, wanted) for one in found)


def _same(one: Any, wanted: Any) -> bool:
    if isinstance(one, _Number):
        return isinstance(wanted, (float, Decimal)) and float(one) == float(wanted)
    if isinstance(one, bool) or isinstance(wanted, bool):
        return one is wanted
    return type(one) is type(wanted) and bool(one == wanted)


@function("JSON_ARRAY_LENGTH", "STRING -> INTEGER")
def json_array_length(text: str) -> int | None:
    """How many elements a JSON array has."""
    found = read(text)
    return len(found) if isinstance(found, list) else None


@function("JSON_CONCAT", "STRING, STRING* -> STRING", nulls=True)
def json_concat(*texts: str | None) -> str | None:
    """JSON values in one: objects merged, arrays and all else one behind the other."""
    if any(text is None for text in texts):
        return None
    values = [read(text) for text in texts if text is not None]
    if all(isinstance(one, dict) for one in values):
        merged: dict[str, Any] = {}
        for one in values:
            merged |= one
        return written(merged)
    return written([part for one in values for part in (one if isinstance(one, list) else [one])])


@function("JSON_ITEMS", "STRING -> ARRAY<STRING>")
def json_items(text: str) -> list[str] | None:
    """The elements of a JSON array, each as JSON."""
    found = read(text)
    return [written(one) for one in found] if isinstance(found, list) else None


@function("JSON_KEYS", "STRING -> ARRAY<STRING>")
def json_keys(text: str) -> list[str] | None:
    """The keys of a JSON object."""
    found = _lenient(text)
    return list(found) if isinstance(found, dict) else None


@function("JSON_RECORDS", "STRING -> MAP<STRING,STRING>")
def json_records(text: str) -> dict[str, str] | None:
    """A JSON object as a map, each value as JSON, texts as they are."""
    found = _lenient(text)
    if not isinstance(found, dict):
        return None
    return {key: one if isinstance(one, str) else written(one) for key, one in found.items()}


@function("TO_JSON_STRING", "T -> STRING", nulls=True, typed=True)
def to_json_string(types: list[SqlType], value: Any) -> str:
    """Any value as JSON."""
    return written(plain(value, types[0]))


def plain(value: Any, kind: SqlType) -> Any:
    """A value as JSON has it."""
    if value is None:
        return None
    if kind.base == "STRUCT":
        return {name: plain(value.get(name), inner) for name, inner in kind.fields}
    if kind.base == "ARRAY" and kind.element is not None:
        return [plain(one, kind.element) for one in value]
    if kind.base == "MAP" and kind.element is not None:
        return {str(key): plain(one, kind.element) for key, one in value.items()}
    if kind.base == "BYTES":
        return base64.b64encode(value).decode()
    if kind.base in ("DATE", "TIME", "TIMESTAMP"):
        return {"DATE": dates.date_text, "TIME": dates.time_text, "TIMESTAMP": dates.timestamp_text}[kind.base](value)
    return value
