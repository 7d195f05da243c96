from __future__ import annotations

from barnabas.core.security.rates import TokenBucket, WindowedRate


def test_a_rate_within_its_limit_throttles_nobody() -> None:
    rate = WindowedRate()
    for second in range(100):
        rate.record(90, second * 1000.0)
        assert rate.throttle_ms(100, second * 1000.0) == 0


def test_who_has_just_come_has_the_windows_before_it_in_reserve() -> None:
    rate = WindowedRate()
    rate.record(1000, 0)
    assert rate.throttle_ms(100, 0) == 0  # ten windows of 100
    rate.record(500, 0)
    assert rate.throttle_ms(100, 0) == 5000


def test_the_time_to_keep_still_brings_the_rate_back_to_the_limit() -> None:
    rate = WindowedRate()
    rate.record(2000, 0)
    throttle_ms = rate.throttle_ms(100, 0)
    assert throttle_ms == 10_000
    assert rate.throttle_ms(100, throttle_ms - 100) > 0
    assert rate.throttle_ms(100, throttle_ms + 1000) == 0


def test_samples_that_are_over_are_forgotten() -> None:
    rate = WindowedRate()
    rate.record(5000, 0)
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.throttle_ms(1, 11_000) == 0


def test_a_bucket_begins_full_and_is_never_cut_short() -> None:
    bucket = TokenBucket()
    assert bucket.tokens(10, 0) == 110
    bucket.take(130, 10, 0)
    assert bucket.tokens(10, 0) == -20
    assert bucket.throttle_ms(10, 0) == 2000
    assert bucket.tokens(10, 2000) == 0
    assert bucket.throttle_ms(10, 2000) == 0
    assert bucket.tokens(10, 60_000) == 110
