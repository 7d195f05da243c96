from collections import Counter

import pytest

from barnabas.cli.records import perf_stats
from barnabas.cli.records.perf_stats import SendStats, percentile
from barnabas.cli.tools.consumer_perf_test import Progress, shown_time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(perf_stats.time, "monotonic", lambda: now[0])
    return now


def test_percentiles_count_from_the_smallest() -> None:
    latencies = Counter({1: 50, 2: 45, 10: 4, 100: 1})
    assert [percentile(latencies, share) for share in (0.49, 0.5, 0.95, 0.99, 0.999)] == [1, 2, 10, 100, 100]
    assert percentile(Counter(), 0.5) == 0


def test_the_total_reads_as_kafkas(clock: list[float]) -> None:
    stats = SendStats(5000)
    clock[0] = 100.004
    stats.record(3, 100.0, 1024 * 1024, None)
    clock[0] = 101.0
    stats.record(1, 100.99, 1024 * 1024, None)
    assert stats.total() == (
        "4 records sent, 4.000000 records/sec (4.00 MB/sec), 5.50 ms avg latency, 10.00 ms max latency, "
        "4 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99.9th."
    )


def test_a_window_is_told_when_its_time_is_over(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    stats = SendStats(1000)
    stats.record(5, 100.0, 0, None)
    clock[0] = 102.0
    stats.record(5, 101.998, 0, None)
    stats.record(1, 102.0, 0, None)
    assert capsys.readouterr().out == (
        "10 records sent, 5.0 records/sec (0.00 MB/sec), 0.5 ms avg latency, 1.0 ms max latency.\n"
    )


def test_what_failed_is_not_counted_as_sent(clock: list[float]) -> None:
    stats = SendStats(1000)
    stats.record(5, 100.0, 0, ValueError("why"))
    assert (stats.count, stats.failed, str(stats.first_error)) == (0, 5, "why")


def test_consumed_rates_leave_out_the_preparation_where_kafka_does() -> None:
    progress = Progress()
    progress.start = 1000.0
    progress.records, progress.bytes, progress.prepared_ms = 1000, 2 * 1024 * 1024, 500
    assert progress.total(1001.0, "SSS").split(", ")[2:] == (
        ["2.0000", "2.0000", "1000", "1000.0000", "500", "500", "4.0000", "2000.0000"]
    )


def test_dates_have_javas_letters() -> None:
    assert shown_time(1700000000.25, "yyyy:SSS") == "2023:250"
