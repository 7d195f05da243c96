"""What Spark does with turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from barnabas.pipelines.connect.plane import turns
from barnabas.pipelines.connect.plane.data_source import TurnReader
from barnabas.pipelines.connect.plane.orders import Job, Outcome, Turn


class Attempt(TaskContext):
    def __new__(cls, number: int) -> Any:
        return object.__new__(cls)

    def __init__(self, number: int) -> None:
        self._attemptNumber = number


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_turn_that_spark_repeats_is_refused(attempt: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first attempt may have committed before its outcome was lost, and would be done twice."""
    job = Job(name="c", kind="source", place="m:C", settings={}, tasks=[{}], client={})
    turn = InputPartition(Turn(job=job, task=0).encode())
    run: list[str] = []

    def ran(given: Turn) -> Outcome:
        run.append(given.job.name)
        return Outcome(name=given.job.name, task=0)

    monkeypatch.setattr(turns, "run_turn", ran)
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda _: Attempt(attempt)))
    rows = TurnReader(str(tmp_path / "plan.json")).read(turn)
    if attempt:
        with pytest.raises(RuntimeError, match="Spark repeats a turn"):
            next(rows)
        assert run == []
    else:
        assert Outcome.parse(next(rows)[0]).name == "c"
        assert run == ["c"]
