"""Dates, times and timestamps."""

from __future__ import annotations

import calendar
import time
from datetime import UTC

from barnabas.pipelines.sql.compute import dates, lenient_dates
from barnabas.pipelines.sql.compute.registry import function

UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}


def moved(ms: int, unit: str, amount: int) -> int:
    """A timestamp so many units later. Months and years keep the day where it exists."""
    if unit in UNIT_MS:
        return ms + UNIT_MS[unit] * amount
    moment = dates.datetime_of(ms)
    months = moment.year * 12 + moment.month - 1 + amount * (12 if unit == "YEAR" else 1)
    year, month = divmod(months, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return dates.ms_of(moment.replace(year=year, month=month + 1, day=day))


@function("TIMESTAMPADD", "INTERVALUNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def timestamp_add(unit: str, amount: int, ms: int) -> int:
    """A timestamp with a duration added: TIMESTAMPADD(DAYS, 1, t)."""
    return moved(ms, unit, amount)


@function("TIMESTAMPSUB", "INTERVALUNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def timestamp_sub(unit: str, amount: int, ms: int) -> int:
    """A timestamp with a duration subtracted."""
    return moved(ms, unit, -amount)


@function("DATEADD", "INTERVALUNIT, INTEGER, DATE -> DATE")
def date_add(unit: str, amount: int, days: int) -> int:
    """A date with a duration added."""
    return moved(days * dates.DAY_MS, unit, amount) // dates.DAY_MS


@function("DATESUB", "INTERVALUNIT, INTEGER, DATE -> DATE")
def date_sub(unit: str, amount: int, days: int) -> int:
    """A date with a duration subtracted."""
    return moved(days * dates.DAY_MS, unit, -amount) // dates.DAY_MS


@function("TIMEADD", "INTERVALUNIT, INTEGER, TIME -> TIME")
def time_add(unit: str, amount: int, ms: int) -> int:
    """A time of day with a duration added, past midnight if need be."""
    return moved(ms, unit, amount) % dates.DAY_MS


@function("TIMESUB", "INTERVALUNIT, INTEGER, TIME -> TIME")
def time_sub(unit: str, amount: int, ms: int) -> int:
    """A time of day with a duration subtracted."""
    return moved(ms, unit, -amount) % dates.DAY_MS


@function("CONVERT_TZ", "TIMESTAMP, STRING, STRING -> TIMESTAMP")
def convert_tz(ms: int, given: str, wanted: str) -> int:
    """A timestamp from one time zone to another."""
    moment = dates.datetime_of(ms).replace(tzinfo=dates.zone(given))
    return dates.ms_of(moment.astimezone(dates.zone(wanted)).replace(tzinfo=UTC))


@function("FORMAT_DATE", "DATE, STRING -> STRING")
def format_date(days: int, pattern: str) -> str:
    """A date as text, by a pattern of Java's."""
    return dates.format_moment(dates.datetime_of(days * dates.DAY_MS), pattern)


@function("FORMAT_TIME", "TIME, STRING -> STRING")
def format_time(ms: int, pattern: str) -> str:
    """A time of day as text, by a pattern of Java's."""
    return dates.format_moment(dates.datetime_of(ms), pattern)


@function("FORMAT_TIMESTAMP", "TIMESTAMP, STRING, STRING? -> STRING")
def format_timestamp(ms: int, pattern: str, zone: str = "UTC") -> str:
    """A timestamp as text, by a pattern of Java's and in a time zone."""
    return dates.format_moment(dates.datetime_of(ms, dates.zone(zone)), pattern)


@function("TIMESTAMPTOSTRING", "BIGINT, STRING, STRING? -> STRING")
def timestamp_to_string(ms: int, pattern: str, zone: str = "UTC") -> str:
    """Milliseconds since 1970 as text, by a pattern of Java's."""
    return format_timestamp(ms, pattern, zone)


@function("DATETOSTRING", "INTEGER, STRING -> STRING")
def date_to_string(days: int, pattern: str) -> str:
    """Days since 1970 as text, by a pattern of Java's."""
    return format_date(days, pattern)


@function("PARSE_DATE", "STRING, STRING -> DATE")
def parse_date(text: str, pattern: str) -> int:
    """Text as a date, by a pattern of Java's; what comes behind the date does not matter."""
    return lenient_dates.parse_date(text, pattern)


@function("STRINGTODATE", "STRING, STRING -> INTEGER")
def string_to_date(text: str, pattern: str) -> int:
    """Text as days since 1970, by a pattern of Java's."""
    return dates.ms_of(dates.parse_moment(text, pattern)) // dates.DAY_MS


@function("PARSE_TIME", "STRING, STRING -> TIME")
def parse_time(text: str, pattern: str) -> int:
    """Text as a time of day, by a pattern of Java's."""
    return dates.ms_of(dates.parse_moment(text, pattern)) % dates.DAY_MS


@function("PARSE_TIMESTAMP", "STRING, STRING, STRING? -> TIMESTAMP")
def parse_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    """Text as a timestamp, by a pattern of Java's and in a time zone."""
    return dates.ms_of(dates.parse_moment(text, pattern, dates.zone(zone)))


@function("STRINGTOTIMESTAMP", "STRING, STRING, STRING? -> BIGINT")
def string_to_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    """Text as milliseconds since 1970, by a pattern of Java's."""
    return parse_timestamp(text, pattern, zone)


@function("FROM_DAYS", "INTEGER -> DATE")
def from_days(days: int) -> int:
    """Days since 1970 as a date."""
    return days


@function("FROM_UNIXTIME", "BIGINT -> TIMESTAMP")
def from_unixtime(ms: int) -> int:
    """Milliseconds since 1970 as a timestamp."""
    return ms


@function("UNIX_DATE", "DATE -> INTEGER")
def unix_date(days: int) -> int:
    """A date as days since 1970."""
    return days


@function("UNIX_DATE", "-> INTEGER")
def unix_date_now() -> int:
    return int(time.time()) // 86_400


@function("UNIX_TIMESTAMP", "TIMESTAMP -> BIGINT")
def unix_timestamp(ms: int) -> int:
    """A timestamp as milliseconds since 1970; without one, of now."""
    return ms


@function("UNIX_TIMESTAMP", "-> BIGINT")
def unix_timestamp_now() -> int:
    return int(time.time() * 1000)
