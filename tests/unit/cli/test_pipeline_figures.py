"""Figures of a topology as `barnabas pipeline status` and `barnabas pipeline metrics` show them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.cli.pipeline_figures import exposition, operator_rows, state_sentence
from barnabas.pipelines.running.status import QueryStatus, Status
from barnabas.pipelines.streams.figures import Figures, OperatorFigures, StateFigures

FIGURES = Figures(
    {"map-values-1": OperatorFigures(1500, 1400, late=3, skipped=100, seconds=0.256)},
    {"0/0": StateFigures(7, 10, 2000, 90, 10, on_disk=True), "0/1": StateFigures(7, 5, 1000)},
)
QUERY = QueryStatus(name="counts", batch=7, rows=1500, batch_ms=80, lag=4, figures=FIGURES.to_json())
STATUS = Status(name="plant", state="stopped", restarts=2, queries=(QUERY,))


def test_an_operator_is_a_row_and_state_a_sentence() -> None:
    assert operator_rows(QUERY) == [["map-values-1", "1,500", "1,400", "3", "100", "0", "0.26"]]
    said = "15 rows, 3,000 bytes in 2 partitions, 1 of them on disk; the cache had 90 % of what was asked for"
    assert state_sentence(QUERY) == said
    assert (operator_rows(QueryStatus(name="plain")), state_sentence(QueryStatus(name="plain"))) == ([], None)


def test_operators_stand_in_the_order_in_which_they_were_written() -> None:
    names = ("count-10", "source-0", "map-values-2")
    query = QueryStatus(name="q", figures=Figures({name: OperatorFigures() for name in names}).to_json())
    assert [row[0] for row in operator_rows(query)] == ["source-0", "map-values-2", "count-10"]


def test_prometheus_gets_every_figure_with_its_labels() -> None:
    lines = exposition([STATUS]).splitlines()
    assert 'barnabas_streams_records_in_total{pipeline="plant",query="counts",operator="map-values-1"} 1500' in lines
    assert 'barnabas_streams_late_records_total{pipeline="plant",query="counts",operator="map-values-1"} 3' in lines
    assert 'barnabas_streams_state_rows{pipeline="plant",query="counts",partition="0/1"} 5' in lines
    assert 'barnabas_pipeline_lag{pipeline="plant",query="counts"} 4' in lines
    assert 'barnabas_pipeline_running{pipeline="plant"} 0' in lines
    assert lines.count("# TYPE barnabas_streams_records_in_total counter") == 1


def test_the_tool_tells_them_of_a_pipeline_that_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plant").mkdir()
    (tmp_path / "plant" / "status.json").write_text(json.dumps(STATUS.to_json()))
    assert main(["pipeline", "--state-dir", str(tmp_path), "metrics"]) == 0
    assert "barnabas_pipeline_restarts_total" in capsys.readouterr().out
    assert main(["pipeline", "--state-dir", str(tmp_path), "status", "plant"]) == 3
    told = capsys.readouterr().out
    assert "map-values-1  1,500  1,400     3      100             0     0.26" in told
    assert "state of counts: 15 rows" in told
