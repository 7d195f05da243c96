"""Two examples as they stand there, on Spark and a node; what the others compute is tested in tests/examples."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
        watching = threading.Thread(target=stop_when, args=(spark, until))
        watching.start()
        try:
            exec(compile((EXAMPLES / name).read_text(), name, "exec"), {"__name__": "__main__"})
        finally:
            watching.join(WAIT_S)
        assert until()

    yield run_file
    spark.conf.unset("spark.sql.streaming.checkpointLocation")
    sys.modules.pop("topics", None)


def stop_when(spark: Any, holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_S
    while time.monotonic() < ends and not (spark.streams.active and holds()):
        time.sleep(0.05)
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
