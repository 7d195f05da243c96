"""What a query has read, could not read and written, from the figures of its operators."""

from __future__ import annotations

from barnabas.pipelines.sql.engine import Engine
from barnabas.pipelines.sql.language.statements import parse_statement
from barnabas.pipelines.sql.local import LocalRun
from barnabas.pipelines.sql.server.counts import Counts, counted
from barnabas.pipelines.streams.figures import Figures, OperatorFigures


def test_records_are_counted_by_what_became_of_them() -> None:
    engine = Engine(log_topic="log")
    texts = (
        "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');",
        "CREATE STREAM o AS SELECT * FROM s WHERE v > 1;",
    )
    for number, text in enumerate(texts):
        change = engine.apply(parse_statement(text), number)
    assert change.starts is not None
    topology = change.starts.planned.topology
    run = LocalRun(topology, {"s": 1})
    values = (b'{"v": 1}', b'{"v": 2}', b'{"v": 3}', b"no JSON", b'{"v": "x"}')
    rows = run.process([("s", 0, at, at, b"k", value, ()) for at, value in enumerate(values)])
    run.close()
    assert [row["topic"] for row in rows].count("log") == 2
    names = {one.operator.kind: one.name for one in topology.graph.nodes}
    sinks = [one.name for one in topology.graph.nodes if one.operator.kind == "sink"]
    figures = Figures({names["sql-source"]: OperatorFigures(5, 5), sinks[0]: OperatorFigures(2, 2)})
    figures.operators[sinks[1]] = OperatorFigures(2, 2)
    assert counted(topology.graph, figures) == Counts(read=5, unreadable=2, written=2)
    assert counted(topology.graph, Figures()) + Counts(1, 1, 1) == Counts(1, 1, 1)
