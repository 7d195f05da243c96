"""A running topology in Spark's UI: the page "SQL / DataFrame" reads what the status store has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

pytest.importorskip("pyspark")

from barnabas.pipelines.streams import run as runs
from barnabas.pipelines.streams import spark_ui
from barnabas.streams import LONG, STRING, Topology

pytestmark = pytest.mark.timeout(600)
LIMIT_S = 240.0


def executions(spark: Any, name: str) -> list[Any]:
    """What the page lists of a topology."""
    store = spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    listed = [found.apply(index) for index in range(found.size())]
    return [one for one in listed if one.description() == f"topology {name}: its operators"]


def shown(spark: Any, execution: Any) -> dict[str, dict[str, str]]:
    """By the name of a node what stands in its box."""
    store = spark._jsparkSession.sharedState().statusStore()
    values = store.executionMetrics(execution.executionId())
    nodes = store.planGraph(execution.executionId()).allNodes()
    found: dict[str, dict[str, str]] = {}
    for node in (nodes.apply(index) for index in range(nodes.size())):
        metrics = (node.metrics().apply(index) for index in range(node.metrics().size()))
        texts = {one.name(): values.get(one.accumulatorId()) for one in metrics}
        found[node.name()] = {name: text.get() for name, text in texts.items() if text.isDefined()}
    return found


def test_operators_stand_in_the_ui_with_their_figures_while_the_topology_runs_and_afterwards(
    spark: Any, stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "is_seen", lambda session: True)  # the tests' session has no page
    monkeypatch.setattr(spark_ui, "REPORT_S", 0.2)
    monkeypatch.setattr(spark_ui, "REPORTS_MAX", 1)
    read, written = stage.topic(), stage.topic()
    topology = Topology("looked-at", processing_guarantee="exactly_once_v2")
    even = topology.stream(read, value=STRING).filter(lambda key, value: int(value) % 2 == 0)
    even.group_by_key().count().to(written, value=LONG)
    stage.write(read, [str(number) for number in range(10)], keys=["a"] * 10)
    run = topology.start(spark, bootstrap_servers=stage.servers, checkpoint=tmp_path)
    try:

        def filtered(rows: str) -> bool:
            found = executions(spark, "looked-at")
            return any(shown(spark, one).get("filter-1", {}).get("rows in") == rows for one in found)

        wait_until(lambda: filtered("10"), limit_s=LIMIT_S)
        assert not executions(spark, "looked-at")[-1].completionTime().isDefined()
        stage.write(read, ["2"], keys=["b"])
        wait_until(lambda: filtered("11"), limit_s=LIMIT_S)  # by another execution, with all figures since the start
    finally:
        run.stop()
    ended = executions(spark, "looked-at")
    assert len(ended) > 1
    wait_until(lambda: all(one.completionTime().isDefined() for one in executions(spark, "looked-at")), limit_s=LIMIT_S)
    figures = shown(spark, executions(spark, "looked-at")[-1])
    assert figures["source-0"]["rows out"] == "11"
    assert figures["filter-1"]["rows out"] == "6"
    assert figures["count-2"]["rows in"] == "6"
    assert int(figures["Topology looked-at"]["state rows"]) > 0
    assert "Source: source-0" in ended[0].physicalPlanDescription()


def test_a_session_without_a_page_is_told_nothing(spark: Any, stage: Any, tmp_path: Path) -> None:
    topology = Topology("not-looked-at")
    topology.stream(stage.topic()).to(stage.topic())
    run = topology.start(spark, bootstrap_servers=stage.servers, checkpoint=tmp_path, trigger={"availableNow": True})
    assert run.await_termination(LIMIT_S)
    assert not executions(spark, "not-looked-at")
