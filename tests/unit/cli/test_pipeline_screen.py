"""The lines of a pipeline where there is no terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.cli.pipeline_screen import Lines
from barnabas.pipelines.running.status import QueryStatus, Status


def test_a_query_without_a_batch_is_told_once_and_then_by_its_batches(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines("plant", 0.0)
    waiting = QueryStatus(name="upper", message="Waiting for data to arrive")
    for query in (waiting, waiting, replace(waiting, batch=0, rows=5, batch_ms=80, lag=1)):
        lines.show(Status(name="plant", state="running", queries=(query,)))
    assert capsys.readouterr().err.splitlines() == [
        "plant: upper: no batch yet; Waiting for data to arrive",
        "plant: upper: batch 0, 5 rows, 0/s, 80 ms, lag 1; Waiting for data to arrive",
    ]
