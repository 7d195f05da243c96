import pytest

from barnabas.cli.arguments.points_in_time import duration_ms, iso_duration_ms, since_ms, timestamp_ms
from barnabas.cli.errors import UsageError


def test_dates_are_in_utc_unless_they_say_otherwise() -> None:
    assert timestamp_ms("2023-11-14T22:13:20.000") == 1700000000000
    assert timestamp_ms("2023-11-14T23:13:20.250+01:00") == 1700000000250
    assert timestamp_ms("2023-11-14T22:13:20Z") == 1700000000000


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT1H", 3_600_000), ("P1D", 86_400_000), ("P1DT2H3M4.5S", 93_784_500), ("-PT1M", -60_000), ("PT-1M", -60_000)],
)
def test_durations_of_iso_8601(text: str, ms: int) -> None:
    assert iso_duration_ms(text) == ms


@pytest.mark.parametrize(("text", "ms"), [("5m", 300_000), ("1h30m", 5_400_000), ("250ms", 250), ("PT5M", 300_000)])
def test_short_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_since_is_a_duration_a_date_or_a_timestamp() -> None:
    assert since_ms("1s", 5000) == 4000
    assert since_ms("1970-01-01T00:00:01", 5000) == 1000
    assert since_ms("1700000000000", 5000) == 1700000000000


@pytest.mark.parametrize("text", ["", "P", "PT", "5", "5 m", "m5", "soon"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        duration_ms(text)
