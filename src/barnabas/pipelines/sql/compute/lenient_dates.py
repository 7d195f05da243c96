"""Dates as PARSE_DATE takes them, by Java's lenient formats: a number has as many digits as there are, what is too
large goes on in the next month or year, and what comes behind the date does not matter."""

from __future__ import annotations

import functools
import re
from datetime import UTC, date, datetime, timedelta

from barnabas.pipelines.sql.compute import dates
from barnabas.pipelines.sql.compute.java import EvaluationError

NUMBERS = "yYMLdD"
KNOWN = {dates.LITERAL, "E", *NUMBERS}
YEARS_BEFORE = 80  # years of two digits begin so long before now


def parse_date(text: str, pattern: str) -> int:
    """Days since 1970."""
    parts = dates.parts_of(pattern)
    if not {letter for letter, _ in parts} <= KNOWN:
        days, time_ms = divmod(dates.ms_of(dates.parse_moment(text, pattern, prefix=True)), dates.DAY_MS)
        if time_ms:
            raise EvaluationError("Date format contains time field.")
        return days
    match = matcher(pattern).match(text)
    if match is None:
        raise EvaluationError(f"Failed to parse date '{text}' with formatter '{pattern}'")
    year, month, day = 1970, 1, 1
    for number, (letter, width) in enumerate(parts):
        found = "" if letter == dates.LITERAL else match[f"p{number}"]
        if letter in "yY":
            year = int(found) if int(width) > 2 else century(int(found))
        elif letter in "ML":
            month = int(found) if found.strip().isdigit() else month_named(found)
        elif letter == "d":
            day = int(found)
        elif letter == "D":
            month, day = 1, int(found)
    more, month = divmod(month - 1, 12)
    try:
        whole = date(year + more, month + 1, 1) + timedelta(days=day - 1)
    except (ValueError, OverflowError):
        raise EvaluationError(f"Failed to parse date '{text}' with formatter '{pattern}': no such date") from None
    return whole.toordinal() - dates.EPOCH.toordinal()


@functools.lru_cache(512)
def matcher(pattern: str) -> re.Pattern[str]:
    text: list[str] = []
    parts = dates.parts_of(pattern)
    for number, (letter, width) in enumerate(parts):
        if letter == dates.LITERAL:
            text.append(re.escape(str(width)))
            continue
        if letter == "E" or (letter in "ML" and int(width) >= 3):
            names = dates.DAYS if letter == "E" else dates.MONTHS
            inner = "|".join((*names, *(one[:3] for one in names)))
        elif number + 1 < len(parts) and is_number(*parts[number + 1]):
            inner = rf"\d{{1,{width}}}+"
        else:
            inner = r"\s*\d{1,9}+"
        text.append(f"(?P<p{number}>{inner})")
    return re.compile("".join(text), re.IGNORECASE | re.ASCII)


def is_number(letter: str, width: int | str) -> bool:
    return letter in NUMBERS and not (letter in "ML" and int(width) >= 3)


def month_named(text: str) -> int:
    return 1 + next(at for at, one in enumerate(dates.MONTHS) if one[:3].upper() == text[:3].upper())


def century(year: int) -> int:
    if year >= 100:
        return year
    first = datetime.now(UTC).year - YEARS_BEFORE
    return first + (year - first) % 100
