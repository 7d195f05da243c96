"""Dates and times by Java's patterns (`yyyy-MM-dd'T'HH:mm:ss.SSS`): formatted, and parsed strictly."""

from __future__ import annotations

import functools
import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from barnabas.pipelines.sql.compute.java import EvaluationError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
LITERAL = "literal"
ISO_LIKE = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:[.,](\d{1,9}))?)?)?)?)?)?"
    r"(Z|[+-]\d{2}:?\d{2})?$"
)


ABBREVIATED = {  # as Java reads them: a zone, which may be an hour ahead in summer
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "MST": "America/Denver",
    "MDT": "America/Denver",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "WET": "Europe/Lisbon",
    "BST": "Europe/London",
    "CET": "Europe/Paris",
    "CEST": "Europe/Paris",
    "EET": "Europe/Athens",
    "EEST": "Europe/Athens",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "AEST": "Australia/Sydney",
}


@functools.lru_cache(512)
def zone(name: str) -> tzinfo:
    if name in ("Z", "z", "UTC", "GMT"):
        return UTC
    match = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", name)
    if match:
        from datetime import timezone

        minutes = int(match.group(2)) * 60 + int(match.group(3) or 0)
        return timezone(timedelta(minutes=-minutes if match.group(1) == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"Unknown time zone: {name}") from None


def datetime_of(ms: int, where: tzinfo = UTC) -> datetime:
    try:
        return (EPOCH + timedelta(milliseconds=ms)).astimezone(where)
    except OverflowError:
        raise EvaluationError(f"{ms} is out of the range of dates") from None


def ms_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


@functools.lru_cache(512)
def parts_of(pattern: str) -> tuple[tuple[str, int | str], ...]:
    """(letter, count) of a pattern, and (literal, text)."""
    found: list[tuple[str, int | str]] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            end = pattern.find("'", at + 1)
            if end < 0:
                raise EvaluationError(f"Pattern ends with an incomplete string literal: {pattern}")
            found.append((LITERAL, pattern[at + 1 : end] or "'"))
            at = end + 1
        elif letter.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            if letter not in "GyuYMLdDEeHhkKmsSAnNaVzOXxZQqwW":
                raise EvaluationError(f"Unknown pattern letter: {letter}")
            found.append((letter, end - at))
            at = end
        else:
            if letter not in "[]":  # optional parts are taken as they are written
                found.append((LITERAL, letter))
            at += 1
    return tuple(found)


def format_moment(moment: datetime, pattern: str) -> str:
    return "".join(
        str(count) if letter == LITERAL else _shown(moment, letter, int(count)) for letter, count in parts_of(pattern)
    )


def saturday_of(moment: datetime) -> datetime:
    """The end of a week of Java's, which begins on Sunday. The first week of a year is that of 1 January."""
    return moment + timedelta(days=6 - moment.isoweekday() % 7)


def _shown(moment: datetime, letter: str, count: int) -> str:
    if letter in "yuY":
        year = saturday_of(moment).year if letter == "Y" else moment.year
        return f"{year % 100:02}" if count == 2 else f"{year:0{count}}"
    if letter in "wW":
        ends = saturday_of(moment)
        week = (ends.timetuple().tm_yday + 6) // 7
        if letter == "W":
            week = (moment.day + moment.replace(day=1).isoweekday() % 7 + 6) // 7
        return f"{week:0{count}}"
    if letter in "ML":
        if count >= 3:
            return MONTHS[moment.month - 1] if count == 4 else MONTHS[moment.month - 1][:3]
        return f"{moment.month:0{count}}"
    if letter == "E":
        day = DAYS[moment.weekday()]
        return day if count == 4 else day[:3]
    if letter == "S":
        return f"{moment.microsecond * 1000:09}"[:count].ljust(count, "0")
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter in "zVOXxZ":
        return _offset(moment, letter, count)
    if letter == "G":
        return "AD"
    number = {
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "e": moment.isoweekday() % 7 + 1,
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "n": moment.microsecond * 1000,
        "A": ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + moment.microsecond // 1000,
        "Q": (moment.month + 2) // 3,
        "q": (moment.month + 2) // 3,
    }[letter]
    return f"{number:0{count}}"


def _offset(moment: datetime, letter: str, count: int) -> str:
    away = moment.utcoffset() or timedelta(0)
    if letter == "V":
        return getattr(moment.tzinfo, "key", None) or "Z"
    if letter == "z":
        return moment.tzname() or "UTC"
    if letter == "X" and not away:
        return "Z"
    minutes = abs(int(away.total_seconds())) // 60
    sign = "-" if away < timedelta(0) else "+"
    hours, rest = divmod(minutes, 60)
    if letter == "O":
        return "GMT" if not minutes else f"GMT{sign}{hours}" + (f":{rest:02}" if rest else "")
    if letter in "Xx" and count == 1:
        return f"{sign}{hours:02}" + (f"{rest:02}" if rest else "")
    return f"{sign}{hours:02}:{rest:02}" if count in (3, 5) else f"{sign}{hours:02}{rest:02}"


NUMBERS = "yuYMLdDHhkKmsSAne"


@functools.lru_cache(512)
def matcher(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression; groups are p<number of the part>."""
    text: list[str] = []
    parts = parts_of(pattern)
    for number, (letter, count) in enumerate(parts):
        if letter == LITERAL:
            text.append(re.escape(str(count)))
            continue
        width = int(count)
        dense = number + 1 < len(parts) and parts[number + 1][0] in NUMBERS and parts[number + 1][0] != LITERAL
        if letter in "ML" and width >= 3:
            inner = "|".join(one if width == 4 else one[:3] for one in MONTHS)
        elif letter == "E":
            inner = "|".join(one if width == 4 else one[:3] for one in DAYS)
        elif letter == "a":
            inner = "AM|PM"
        elif letter in "zVOXxZ":
            inner = r"Z|(?:GMT|UTC)?[+-]\d{1,2}(?::?\d{2})?|[A-Za-z]+(?:[/_][A-Za-z_]+)*"
        elif letter == "G":
            inner = "AD|BC"
        elif letter in "yuY" and width != 2:
            inner = rf"\d{{{width}}}" if dense or width > 1 else r"\d{1,9}"
        else:
            inner = rf"\d{{{width}}}" if dense or width > 1 else r"\d{1,9}"
        text.append(f"(?P<p{number}>{inner})")
    return re.compile("".join(text), re.IGNORECASE)


def parse_fields(text: str, pattern: str, *, prefix: bool = False) -> dict[str, str]:
    match = matcher(pattern).match(text) if prefix else matcher(pattern).fullmatch(text)
    if match is None:
        raise EvaluationError(f"Failed to parse timestamp '{text}' with formatter '{pattern}'")
    return {
        letter: match.group(f"p{number}") for number, (letter, _) in enumerate(parts_of(pattern)) if letter != LITERAL
    }


def parse_moment(text: str, pattern: str, where: tzinfo = UTC, *, prefix: bool = False) -> datetime:
    """What a pattern does not name is 1970-01-01T00:00. `prefix`: what comes behind it does not matter."""
    found = parse_fields(text, pattern, prefix=prefix)
    try:
        day, clock = _date(found), _clock(found)
        named = next((found[letter] for letter in "zVOXxZ" if letter in found), None)
        at = zone(ABBREVIATED.get(named.upper(), named)) if named else where
        if clock == (24, 0, 0, 0):  # the end of the day
            day, clock = day + timedelta(days=1), (0, 0, 0, 0)
        whole = datetime(day.year, day.month, day.day, tzinfo=at)
        return whole.replace(hour=clock[0], minute=clock[1], second=clock[2], microsecond=clock[3])
    except ValueError as error:
        raise EvaluationError(f"Failed to parse timestamp '{text}' with formatter '{pattern}': {error}") from None


def _date(found: dict[str, str]) -> date:
    year_text = found.get("y") or found.get("u") or found.get("Y")
    year = 1970 if year_text is None else int(year_text)
    if year_text is not None and len(year_text) == 2:
        year += 2000
    if "D" in found:
        found_day = date(year, 1, 1) + timedelta(days=int(found["D"]) - 1)
        if found_day.year != year:
            raise ValueError(f"{year} has no day {found['D']}")
        return found_day
    month_text = found.get("M") or found.get("L")
    if month_text is None or month_text.isdigit():
        month = int(month_text or 1)
    else:
        month = 1 + next(at for at, one in enumerate(MONTHS) if one[:3].upper() == month_text[:3].upper())
    day = int(found.get("d", 1))
    if 28 < day < 32 and year_text is not None:  # as Java's formatter does that is neither strict nor lenient
        day = min(day, monthrange(year, month)[1])
    whole = date(year, month, day)
    if "E" in found and "d" in found and found["E"][:3].upper() != DAYS[whole.weekday()][:3].upper():
        raise ValueError(f"{whole} is no {found['E']}")
    return whole


def _clock(found: dict[str, str]) -> tuple[int, int, int, int]:
    hour = int(found.get("H", 0))
    for letter, last in (("k", 24), ("h", 12)):
        if letter in found and not 1 <= int(found[letter]) <= last:
            raise ValueError(f"{found[letter]} is no hour from 1 to {last}")
    if "k" in found:
        hour = int(found["k"]) % 24
    if "h" in found or "K" in found:
        hour = int(found.get("h") or found["K"]) % 12
        hour += 12 if found.get("a", "AM").upper() == "PM" else 0
    fraction = found.get("S", "") or (found["n"].zfill(9) if "n" in found else "")
    return hour, int(found.get("m", 0)), int(found.get("s", 0)), int(fraction.ljust(6, "0")[:6] or 0)


def lenient_timestamp(text: str) -> int:
    """A timestamp as ksqlDB takes it in literals: a date alone, or with a part of the time and a zone."""
    match = ISO_LIKE.fullmatch(text.strip())
    if match is None:
        raise EvaluationError(f"Failed to parse timestamp '{text}': a timestamp looks like 2006-01-02T15:04:05.123")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    where = zone(offset) if offset else UTC
    try:
        moment = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=where
        )
    except ValueError as error:
        raise EvaluationError(f"Failed to parse timestamp '{text}': {error}") from None
    return ms_of(moment) + int((fraction or "0").ljust(3, "0")[:3])


def timestamp_text(ms: int) -> str:
    return format_moment(datetime_of(ms), "yyyy-MM-dd'T'HH:mm:ss.SSS")


def date_text(days: int) -> str:
    return format_moment(datetime_of(days * DAY_MS), "yyyy-MM-dd")


def time_text(ms: int) -> str:
    """As java.time.LocalTime prints it: without seconds where there are none."""
    moment = datetime_of(ms)
    text = f"{moment.hour:02}:{moment.minute:02}"
    if moment.microsecond:
        return f"{text}:{moment.second:02}.{moment.microsecond // 1000:03}"
    return f"{text}:{moment.second:02}" if moment.second else text


def date_of(text: str) -> int:
    return lenient_timestamp(text.strip()) // DAY_MS


def time_of(text: str) -> int:
    match = re.fullmatch(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", text.strip())
    if match is None:
        raise EvaluationError(f"Failed to parse time '{text}': a time looks like 15:04:05.123")
    hour, minute, second, fraction = match.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise EvaluationError(f"Failed to parse time '{text}': it is no time of a day")
    return ((int(hour) * 60 + int(minute)) * 60 + int(second or 0)) * 1000 + int((fraction or "0").ljust(3, "0")[:3])
