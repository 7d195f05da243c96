"""Test cases in files, as ksqlDB's test runner has them: statements, records in, records expected.

What is expected of a record is what the file says of it: a time, a window and headers are looked at if they are there.
Names of fields may be written in small letters, and a DOUBLE may differ as far as rounding does.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.runner import Bench, CaseRecord

Headers = tuple[tuple[str, bytes | None], ...]
RECORD = "a record has a topic, a key, a value and a timestamp; this one is"
HEADERS = 'headers are [{"KEY": "name", "VALUE": "base64, or null"}]; these are'
ROUNDING, RELATIVE_ROUNDING = 1e-6, 1e-12


class Expected(NamedTuple):
    """A record of an output file; None is what it says nothing of."""

    topic: str
    key: Any
    value: Any
    timestamp_ms: int | None
    window: tuple[int, int] | None
    headers: Headers | None


def inputs_in(path: Path) -> list[CaseRecord]:
    found = [expected_from(one, path) for one in entries_in(path, "inputs")]
    return [CaseRecord(*one[:3], one.timestamp_ms or 0, one.window, one.headers or ()) for one in found]


def outputs_in(path: Path) -> list[Expected]:
    return [expected_from(one, path) for one in entries_in(path, "outputs")]


def entries_in(path: Path, field_name: str) -> list[Any]:
    try:
        tree_ = json.loads(path.read_text())
    except ValueError as error:
        raise SqlError(f"{path} is no JSON: {error}") from None
    entries = tree_.get(field_name) if isinstance(tree_, dict) else None
    if not isinstance(entries, list):
        raise SqlError(f'{path} has no "{field_name}": it looks like {{"{field_name}": [{{"topic": ...}}]}}')
    return entries


def expected_from(entry: Any, path: Path) -> Expected:
    if not isinstance(entry, dict) or "topic" not in entry:
        raise SqlError(f"{path}: {RECORD} {entry!r}")
    window, time, headers = (entry.get(name) for name in ("window", "timestamp", "headers"))
    try:
        bounds = None if window is None else (int(window["start"]), int(window["end"]))
        time_ms = None if time is None else int(time)
    except (KeyError, TypeError, ValueError):
        raise SqlError(f"{path}: {RECORD} {entry!r}") from None
    try:
        given = None if headers is None else tuple((one["KEY"], bytes_of(one["VALUE"])) for one in headers)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise SqlError(f"{path}: {HEADERS} {headers!r}") from None
    return Expected(entry["topic"], entry.get("key"), entry.get("value"), time_ms, bounds, given)


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def run_case(statements: str, inputs: list[CaseRecord]) -> list[CaseRecord]:
    bench = Bench()
    try:
        bench.execute(statements, inserts_last=True)
        for record in inputs:
            bench.pipe(record)
        return bench.output()
    finally:
        bench.close()


def difference(expected: list[Expected], given: list[CaseRecord]) -> str | None:
    """The first thing that is not as expected, topic by topic; None if all is."""
    for topic in dict.fromkeys(one.topic for one in expected):
        wanted = [one for one in expected if one.topic == topic]
        found = [one for one in given if one.topic == topic]
        for number, one in enumerate(wanted):
            if number >= len(found):
                return f"Topic {topic}, message {number}: Expected {shown(one)} but there is no such record"
            if not fulfils(found[number], one):
                return f"Topic {topic}, message {number}: Expected {shown(one)} but was {shown(found[number])}"
        if len(found) > len(wanted):
            return (
                f"Topic {topic}: Expected <{len(wanted)}> records but it was <{len(found)}>: "
                f"{shown(found[len(wanted)])}"
            )
    return None


def fulfils(given: CaseRecord, expected: Expected) -> bool:
    return (
        same(given.key, expected.key)
        and same(given.value, expected.value)
        and expected.timestamp_ms in (None, given.timestamp_ms)
        and expected.window in (None, given.window)
        and expected.headers in (None, given.headers)
    )


def same(given: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and isinstance(given, dict):
        names = {name: name if name in given else name.upper() for name in expected}
        return len(given) == len(expected) and all(
            names[name] in given and same(given[names[name]], one) for name, one in expected.items()
        )
    if isinstance(expected, list) and isinstance(given, list):
        return len(given) == len(expected) and all(map(same, given, expected))
    if isinstance(expected, bool) or isinstance(given, bool):
        return given is expected
    if isinstance(given, Decimal) and isinstance(expected, (str, int, float)):
        try:
            return Decimal(str(expected)) == given
        except InvalidOperation:
            return False
    if isinstance(given, float) and isinstance(expected, (int, float)):
        return math.isclose(given, expected, rel_tol=RELATIVE_ROUNDING, abs_tol=ROUNDING)
    return bool(given == expected)


def shown(record: CaseRecord | Expected) -> str:
    window = f" in window {list(record.window)}" if record.window is not None else ""
    time = f" with timestamp={record.timestamp_ms}" if record.timestamp_ms is not None else ""
    value = json.dumps(record.value, default=str)
    headers = f" and headers {list(record.headers)}" if record.headers else ""
    return f"<{json.dumps(record.key, default=str)}, {value}>{window}{time}{headers}"
