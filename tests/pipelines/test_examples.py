"""Two examples as they stand there, on Spark and a node; what the others compute is tested in tests/examples."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

EXAMPLES = Path(__file__).parents[2] / "examples"
WAIT_S = 240.0
pytestmark = pytest.mark.timeout(600)
Run = Callable[..., None]


@pytest.fixture
def run(spark: Any, stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a file as `spark-submit` and `barnabas pipeline run` do, until a condition holds and its queries are
    stopped."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", stage.servers)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoints"))

    def run_file(name: str, *arguments: str, until: Callable[[], bool]) -> None:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        ended = threading.Event()
        watching = threading.Thread(target=stop_when, args=(spark, until, ended))
        watching.start()
        try:
            exec(compile((EXAMPLES / name).read_text(), name, "exec"), {"__name__": "__main__"})
        finally:
            ended.set()
            watching.join(WAIT_S)
        assert until()

    yield run_file
    spark.conf.unset("spark.sql.streaming.checkpointLocation")
    spark.conf.unset("spark.sql.session.timeZone")
    sys.modules.pop("topics", None)


def noted_files(directory: Path) -> list[Path]:
    """Those of batches that are done, as Spark has noted them."""
    logs = [one for one in (directory / "_spark_metadata").glob("*") if one.name.isdigit()]
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    return [Path(line["path"].removeprefix("file://")) for line in lines]


def stop_when(spark: Any, holds: Callable[[], bool], ended: threading.Event) -> None:
    limit = time.monotonic() + WAIT_S
    while time.monotonic() < limit and not (spark.streams.active and holds()) and not ended.wait(0.05):
        pass
    for query in spark.streams.active:
        query.stop()


def test_word_count_counts_and_goes_on_where_it_was(run: Run, stage: Any) -> None:
    lines, results = stage.topic(3, "streams-plaintext-input"), "streams-wordcount-output"

    def counts() -> dict[str, int]:
        found = [pair for one in range(3) for pair in stage.read_committed(results, one)]
        return {word: int.from_bytes(count.encode(), "big") for word, count in found}

    stage.write(lines, ["all streams lead to kafka"])
    run("word_count.py", until=lambda: counts() == {"all": 1, "streams": 1, "lead": 1, "to": 1, "kafka": 1})
    stage.write(lines, ["Hello, Kafka Streams!"], 1)
    both = {"all": 1, "streams": 2, "lead": 1, "to": 1, "kafka": 2, "hello": 1}
    run("word_count.py", until=lambda: counts() == both)
    assert sum(len(stage.read_committed(results, one)) for one in range(3)) == 8


def test_a_topic_is_ingested_by_the_hour_of_its_records_and_each_of_them_once(
    run: Run, stage: Any, spark: Any, tmp_path: Path
) -> None:
    topic, lake = stage.topic(2, retention_ms="-1"), tmp_path / "lake"
    one_o_clock, two_o_clock = 1_772_370_000_000, 1_772_373_600_000  # 2026-03-01, UTC

    def rows() -> int:
        return sum(parquet.read_metadata(one).num_rows for one in noted_files(lake))

    stage.write(topic, ["a", "b", None], keys=["k", "k", "k"], timestamp_ms=one_o_clock)
    stage.write(topic, ["c"], 1, timestamp_ms=two_o_clock - 1)
    run("ingest_parquet.py", topic, str(lake), until=lambda: rows() == 4)
    stage.write(topic, ["late"], 1, timestamp_ms=one_o_clock + 5)
    stage.write(topic, ["d"], timestamp_ms=two_o_clock)
    run("ingest_parquet.py", topic, str(lake), until=lambda: rows() == 6)

    found = spark.read.parquet(str(lake)).selectExpr("hour", "string(value)", "partition", "offset").collect()
    assert sorted(map(tuple, found), key=str) == [
        (13, "a", 0, 0), (13, "b", 0, 1), (13, "c", 1, 0), (13, "late", 1, 1), (13, None, 0, 2), (14, "d", 0, 3),
    ]  # fmt: skip
    assert {one.parent.relative_to(lake).as_posix() for one in noted_files(lake)} == {
        "date=2026-03-01/hour=13",
        "date=2026-03-01/hour=14",
    }
