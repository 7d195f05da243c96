"""What Spark's UI is told of a topology: a tree of operators, and their figures."""

from __future__ import annotations

from barnabas.pipelines.streams.figures import Figures, OperatorFigures, StateFigures
from barnabas.pipelines.streams.spark_ui import PlanNode, counted, plan_of
from barnabas.streams import STRING, Topology


def names(node: PlanNode) -> tuple[str, list[object]]:
    return node.name, [names(one) for one in node.inputs]


def test_a_plan_has_each_operator_once_with_metrics_and_names_it_again_where_others_read_from_it() -> None:
    topology = Topology("shown")
    numbers = topology.stream("in", value=STRING).filter(lambda key, value: value != "")
    numbers.group_by_key().count().to("counts")
    numbers.to("copies")
    plan = plan_of("shown", topology.graph)
    stored = "sink-4", [("to-stream-3", [("count-2", [("filter-1", [("source-0", [])])])])]
    assert names(plan) == ("Topology shown", [stored, ("sink-5", [("filter-1 (see above)", [])])])
    metrics = list(plan.all_metrics())
    assert len(metrics) == len(set(metrics)) == 4 + 6 * 6
    assert ("filter-1", "rows_in") in metrics
    assert ("state", "bytes") in metrics


def test_figures_are_counted_by_operator_and_state_over_all_partitions() -> None:
    operators = {"filter-1": OperatorFigures(rows_in=5, rows_out=3, late=1, seconds=0.0126)}
    found = counted(Figures(operators, {"0/0": StateFigures(3, 7, 70, 4, 2), "0/1": StateFigures(3, 1, 10, 1, 0)}))
    assert {metric: count for metric, count in found.items() if count} == {
        ("filter-1", "rows_in"): 5,
        ("filter-1", "rows_out"): 3,
        ("filter-1", "late"): 1,
        ("filter-1", "milliseconds"): 13,
        ("state", "rows"): 8,
        ("state", "bytes"): 80,
        ("state", "hits"): 5,
        ("state", "misses"): 2,
    }
