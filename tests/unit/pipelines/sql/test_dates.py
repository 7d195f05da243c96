"""Dates by Java's patterns. What is expected was computed by Java 17."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from barnabas.pipelines.sql.compute import dates
from barnabas.pipelines.sql.compute.functions.times import format_date, parse_date, parse_time
from barnabas.pipelines.sql.compute.java import EvaluationError


@pytest.mark.parametrize(
    ("day", "shown"),
    [
        ("2020-12-27", "2021-01-1 5 Sun"),
        ("2021-01-01", "2021-01-6 1 Fri"),
        ("2021-01-03", "2021-02-1 2 Sun"),
        ("2021-12-25", "2021-52-7 4 Sat"),
        ("2021-12-26", "2022-01-1 5 Sun"),
        ("2024-12-29", "2025-01-1 5 Sun"),
    ],
)
def test_weeks_begin_on_sunday_and_the_first_has_the_first_of_january(day: str, shown: str) -> None:
    days = date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal()
    assert format_date(days, "YYYY-ww-e W EEE") == shown


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("yyyy-MM-dd", "2020-02-30", "2020-02-29T00:00"),
        ("yyyy-MM-dd", "2021-04-31", "2021-04-30T00:00"),
        ("uuuu-MM-dd", "2021-06-31", "2021-06-30T00:00"),
        ("yyyy-MM-dd", "2021-02-32", None),
        ("MM-dd", "02-30", None),
        ("yyyy-MM-dd HH:mm", "2021-02-01 24:00", "2021-02-02T00:00"),
        ("yyyy-MM-dd HH:mm", "2021-02-01 24:01", None),
        ("yyyy-DDD", "2021-366", None),
        ("yyyy-DDD", "2020-366", "2020-12-31T00:00"),
        ("dd MMM yyyy", "03 mar 2021", "2021-03-03T00:00"),
        ("yyyy-MM-dd hh:mm a", "2021-06-30 12:30 am", "2021-06-30T00:30"),
        ("yyyy-MM-dd hh a", "2021-06-30 13 am", None),
        ("yyyy-M-d kk", "2021-2-3 24", "2021-02-03T00:00"),
        ("EEE yyyy-MM-dd", "Mon 2021-02-01", "2021-02-01T00:00"),
        ("EEE yyyy-MM-dd", "Tue 2021-02-01", None),
    ],
)
def test_timestamps_are_taken_as_by_java_time(pattern: str, text: str, wanted: str | None) -> None:
    if wanted is None:
        with pytest.raises(EvaluationError):
            dates.parse_moment(text, pattern)
    else:
        assert dates.parse_moment(text, pattern) == datetime.fromisoformat(wanted).replace(tzinfo=UTC)


def test_a_time_may_be_the_end_of_the_day() -> None:
    assert parse_time("24:00", "HH:mm") == 0


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("dd.MM.yyyy", "30.02.2021", "2021-03-02"),
        ("dd.MM.yyyy", "3.2.2021", "2021-02-03"),
        ("dd.MM.yy", "3.2.21", "2021-02-03"),
        ("dd.MM.yy", "3.2.99", "1999-02-03"),
        ("MM/dd/yyyy", "2/3/2021", "2021-02-03"),
        ("yyyyMMdd", "20210203", "2021-02-03"),
        ("yyyy-MM-dd", "2021-13-01", "2022-01-01"),
        ("yyyy-MM-dd", "2021-02-03abc", "2021-02-03"),
        ("yyyy-MM-dd", " 2021-02-03", "2021-02-03"),
        ("d MMM yyyy", "3 March 2021", "2021-03-03"),
        ("EEE, d MMM yyyy", "Wed, 3 mar 2021", "2021-03-03"),
        ("yyyy-DDD", "2021-032", "2021-02-01"),
        ("yyyy-MM-dd", "today", None),
        ("yyyy-MM-dd", "99999-01-01", None),
        ("yyyy-MM-dd HH:mm", "2021-02-03 00:00", "2021-02-03"),
        ("yyyy-MM-dd HH:mm", "2021-02-03 10:00", None),
    ],
)
def test_parse_date_takes_what_lenient_formats_of_java_take(pattern: str, text: str, wanted: str | None) -> None:
    if wanted is None:
        with pytest.raises(EvaluationError):
            parse_date(text, pattern)
    else:
        assert date.fromordinal(parse_date(text, pattern) + date(1970, 1, 1).toordinal()) == date.fromisoformat(wanted)
