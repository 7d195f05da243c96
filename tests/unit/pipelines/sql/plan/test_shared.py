"""Queries that keep nothing as one topology: it gives what each of them gives."""

from __future__ import annotations

import json
from typing import Any

from barnabas.pipelines.sql.engine import Engine
from barnabas.pipelines.sql.language.statements import each_statement
from barnabas.pipelines.sql.local import LocalRun
from barnabas.pipelines.sql.plan.planner import Planned
from barnabas.pipelines.sql.plan.shared import shared, source_topic

STATEMENTS = """
CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
CREATE STREAM large AS SELECT * FROM s WHERE v > 10;
CREATE STREAM doubled AS SELECT id, v * 2 AS w FROM s;
CREATE STREAM again AS SELECT id, w + 1 AS w FROM doubled;
INSERT INTO doubled SELECT id, v + 100 AS w FROM s;
CREATE TABLE counted AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
CREATE STREAM keyed AS SELECT v, id FROM s PARTITION BY v;
CREATE STREAM joined AS SELECT s.id, s.v, t.v AS old FROM s JOIN t ON s.id = t.id;
CREATE TABLE kept AS SELECT * FROM t WHERE v > 1;
"""


def queries() -> dict[str, Planned]:
    engine = Engine(log_topic="log")
    for number, statement in enumerate(each_statement(STATEMENTS, {}, {})):
        engine.apply(statement, number)
    return {name: one.planned for name, one in engine.queries.items()}


def record(topic: str, offset: int, value: int, partition: int = 0) -> tuple[Any, ...]:
    return topic, partition, offset, 0, b"k", json.dumps({"V": value, "W": value}).encode(), ()


def rows(run: LocalRun, *records: tuple[Any, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in run.process(list(records)):
        value = json.loads(row["value"])
        found.setdefault(row["topic"], []).append(value.get("W", value.get("V")))
    return {topic: sorted(values) for topic, values in found.items()}


def test_what_keeps_nothing_may_share() -> None:
    found = {name: source_topic(one) for name, one in queries().items()}
    assert {name: topic for name, topic in found.items() if topic} == {
        "CSAS_LARGE_2": "s",
        "CSAS_DOUBLED_3": "s",
        "CSAS_AGAIN_4": "DOUBLED",
        "INSERTQUERY_5": "s",
    }


def test_queries_that_share_give_what_each_gives() -> None:
    sharers = {name: one for name, one in queries().items() if source_topic(one)}
    made = shared("all", sharers, {}, {})
    assert made.topology.graph.topics() == ["s", "DOUBLED"]
    run = LocalRun(made.topology, {"s": 1, "DOUBLED": 1})
    found = rows(run, record("s", 0, 3), record("s", 1, 30), record("DOUBLED", 0, 7))
    run.close()
    assert found == {"LARGE": [30], "DOUBLED": [6, 60, 103, 130], "AGAIN": [8]}
    assert made.steps["CSAS_LARGE_2"]["source-0"] == made.steps["CSAS_DOUBLED_3"]["source-0"] == "source-0"


def test_what_a_query_has_done_already_is_left_out_for_it_alone() -> None:
    sharers = {name: one for name, one in queries().items() if name in ("CSAS_LARGE_2", "CSAS_DOUBLED_3")}
    first = {("s", 0): 5, ("s", 1): 0}
    made = shared("all", sharers, {"CSAS_LARGE_2": first, "CSAS_DOUBLED_3": {("s", 0): 7, ("s", 1): 0}}, first)
    run = LocalRun(made.topology, {"s": 3})
    given = [record("s", offset, 20 + offset) for offset in (5, 6, 7)]
    found = rows(run, *given, record("s", 0, 40, 1), record("s", 0, 50, 2))
    run.close()
    assert found == {"LARGE": [25, 26, 27, 40, 50], "DOUBLED": [54, 80, 100]}


def test_lines_of_the_processing_log_name_the_query_that_could_not_read() -> None:
    sharers = {name: one for name, one in queries().items() if name in ("CSAS_LARGE_2", "CSAS_DOUBLED_3")}
    run = LocalRun(shared("all", sharers, {}, {}).topology, {"s": 1})
    found = run.process([("s", 0, 0, 0, b"k", b"{", ())])
    run.close()
    assert [row["topic"] for row in found] == ["log", "log"]
    assert [name in row["value"].decode() for row in found for name in sharers] == [True, False, False, True]
