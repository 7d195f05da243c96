from __future__ import annotations

from barnabas.pipelines.running.backoff import Backoff


def test_every_failure_doubles_the_pause_up_to_a_minute() -> None:
    backoff = Backoff()
    assert [backoff.failed(0) for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_healthy_spell_is_a_new_beginning_and_a_short_one_is_not() -> None:
    backoff = Backoff(healthy_s=60)
    assert [backoff.failed(ran_s) for ran_s in (0, 59, 60, 0)] == [1, 2, 1, 2]
    assert backoff.failures == 2


def test_a_pipeline_that_fails_for_years_still_waits_a_minute() -> None:
    backoff = Backoff()
    backoff.failures = 10**6
    assert backoff.failed(0) == 60
