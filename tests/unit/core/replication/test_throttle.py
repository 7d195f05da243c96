"""Which replicas a topic's list names, and how long a broker rests that has copied too much of them."""

from __future__ import annotations

import pytest

from barnabas.core.replication.throttle import FOREVER_MS, NO_LIMIT, Throttle, is_throttled


@pytest.mark.parametrize(
    ("entries", "index", "broker_id", "throttled"),
    [
        ((), 0, 1, False),
        (("*",), 7, 1, True),
        (("0:1", "3:2"), 0, 1, True),
        (("0:1", "3:2"), 3, 1, False),
        (("0:1", "3:2"), 3, 2, True),
        (("10:12",), 1, 12, False),
    ],
)
def test_a_list_names_replicas_by_partition_and_broker(
    entries: tuple[str, ...], index: int, broker_id: int, throttled: bool
) -> None:
    assert is_throttled(entries, index, broker_id) is throttled


def test_a_broker_that_begins_may_copy_one_window_of_its_rate() -> None:
    throttle = Throttle(bytes_per_s=1000)
    throttle.record(1000, now_ms=0)
    assert throttle.rest_ms(0) == 0, "as much as the rate is not more than it"
    throttle.record(500, now_ms=10)
    assert throttle.rest_ms(10) == 500, "1,500 bytes need 1.5 s, and a window counts as 1 s"
    assert throttle.rest_ms(1400) == 100
    assert throttle.rest_ms(1500) == 0


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    throttle = Throttle(samples=3, window_ms=1000, bytes_per_s=10)
    throttle.record(1_000_000, now_ms=0)
    assert throttle.rest_ms(2999) > 0
    assert throttle.rest_ms(3000) == 0


def test_the_rate_is_kept_over_a_long_copy() -> None:
    throttle, now_ms, copied = Throttle(bytes_per_s=100_000), 0.0, 0
    while copied < 2_000_000:
        now_ms += throttle.rest_ms(now_ms)
        throttle.record(64_000, now_ms)
        copied += 64_000
    assert 18_000 <= now_ms <= 20_500


def test_another_rate_counts_at_once() -> None:
    throttle = Throttle(bytes_per_s=10)
    throttle.record(5000, now_ms=0)
    assert throttle.rest_ms(0) > 100_000
    throttle.bytes_per_s = 1_000_000
    assert throttle.rest_ms(0) == 0
    throttle.bytes_per_s = NO_LIMIT
    assert throttle.rest_ms(0) == 0


def test_a_rate_of_zero_stops_after_the_first_byte() -> None:
    throttle = Throttle(bytes_per_s=0)
    assert throttle.rest_ms(0) == 0
    throttle.record(1, now_ms=0)
    assert throttle.rest_ms(5000) == FOREVER_MS
    assert throttle.rest_ms(20_000) == 0
