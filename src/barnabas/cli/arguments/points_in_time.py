"""Dates and durations as they are typed: Kafka's `2024-05-01T12:30:00.000`, `PT1H30M`, and `5m` for the hurried."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from barnabas.cli.errors import UsageError

_ISO_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:[.,]\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_SHORT_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def timestamp_ms(text: str) -> int:
    """A date is in UTC unless it names its zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text} is not a date of the form YYYY-MM-DDThh:mm:ss.sss, with or without a zone.") from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


def iso_duration_ms(text: str) -> int:
    found = _ISO_DURATION.fullmatch(text)
    if found is None or not any(found[unit] for unit in ("days", "hours", "minutes", "seconds")):
        raise UsageError(f"{text} is not a duration of the form PnDTnHnMnS, such as PT1H30M.")
    seconds = float((found["seconds"] or "0").replace(",", "."))
    whole = int(found["days"] or 0) * 86_400 + int(found["hours"] or 0) * 3600 + int(found["minutes"] or 0) * 60
    return round((whole + seconds) * 1000) * (-1 if found["sign"] == "-" else 1)


def duration_ms(text: str) -> int:
    """`5m`, `1h30m`, `250ms` or an ISO duration."""
    if text[:1] in "pP+-" and text:
        return iso_duration_ms(text)
    parts = _SHORT_DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text} is not a duration such as 30s, 5m, 1h30m or 2d.")
    return round(sum(float(number) * _UNIT_MS[unit] for number, unit in parts))


def since_ms(text: str, now_ms: int) -> int:
    """A point in time: a duration before now, a date, or milliseconds since 1970."""
    if text.isdecimal() and len(text) >= 10:
        return int(text)
    if re.match(r"\d{4}-\d\d-\d\d", text):
        return timestamp_ms(text)
    return now_ms - duration_ms(text)
