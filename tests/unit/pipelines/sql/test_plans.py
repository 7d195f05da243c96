"""Random queries over random records against a plain computation of the same: the tables they end with are equal.

`make sql-plans PLANS=1000` tries many plans (`BARNABAS_PLANS`); a plan that fails names its seed.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from barnabas.pipelines.sql.runner import Bench, CaseRecord
from tests.support.sql_plans import difference

PLANS = int(os.environ.get("BARNABAS_PLANS", "36"))
SEEDS = range(12)
AGGREGATES = {
    "COUNT(*)": len,
    "SUM(v)": sum,
    "MIN(v)": min,
    "MAX(v)": max,
    "AVG(v)": lambda values: sum(values) / len(values),
    "COLLECT_LIST(v)": list,
    "TOPK(v, 2)": lambda values: sorted(values, reverse=True)[:2],
    "LATEST_BY_OFFSET(v)": lambda values: values[-1],
    "EARLIEST_BY_OFFSET(v)": lambda values: values[0],
    "COUNT_DISTINCT(v)": lambda values: len(set(values)),
}
STREAM = "CREATE STREAM s (id STRING KEY, g INT, v INT) WITH (kafka_topic='s', value_format='JSON');"


def records(random_: random.Random, count: int = 60) -> list[tuple[str, int, int, int]]:
    """(id, g, v, time)"""
    return [(random_.choice("abc"), random_.randint(0, 3), random_.randint(-9, 9), at * 100) for at in range(count)]


def final_table(sql: str, given: list[tuple[str, int, int, int]]) -> dict[Any, Any]:
    """The last value of each key and window."""
    bench = Bench()
    try:
        bench.execute(STREAM + sql)
        for key, group, value, time in given:
            bench.pipe(CaseRecord("s", key, {"g": group, "v": value}, time))
        found: dict[Any, Any] = {}
        for one in bench.output():
            found[one.key, one.window] = one.value
        return {key: value for key, value in found.items() if value is not None}
    finally:
        bench.close()


def grouped(rows: Any, by: Any) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for row in rows:
        found.setdefault(by(row), []).append(row[2])
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_grouped_query_ends_with_the_table_of_a_plain_computation(seed: int) -> None:
    random_ = random.Random(seed)
    given = records(random_)
    function, compute = random_.choice(list(AGGREGATES.items()))
    limit = random_.randint(-5, 5)
    column, index = random_.choice([("id", 0), ("g", 1)])
    size_ms = random_.choice([None, 700, 1000, 6000])
    window = "" if size_ms is None else f" WINDOW TUMBLING (SIZE {size_ms} MILLISECONDS)"
    having = random_.choice(["", " HAVING COUNT(*) > 2"])
    select = f"SELECT {column}, {function} AS x FROM s{window} WHERE v > {limit} GROUP BY {column}{having}"
    sql = f"CREATE TABLE t AS {select};"

    def by(row: Any) -> Any:
        start = None if size_ms is None else row[3] // size_ms * size_ms
        return row[index], None if start is None else (start, start + (size_ms or 0))

    wanted = grouped([row for row in given if row[2] > limit], by)
    expected = {key: {"X": compute(values)} for key, values in wanted.items() if not having or len(values) > 2}
    assert final_table(sql, given) == expected, sql


@pytest.mark.parametrize("seed", SEEDS)
def test_a_projection_gives_what_plain_python_gives(seed: int) -> None:
    random_ = random.Random(seed)
    given = records(random_, 20)
    a, b = random_.randint(1, 5), random_.randint(1, 5)
    bench = Bench()
    bench.execute(
        STREAM + f"CREATE STREAM o AS SELECT id, v * {a} + g AS x, CASE WHEN v > {b} THEN 'high' ELSE 'low' END AS y"
        f" FROM s WHERE g <> {random_.randint(0, 3)} OR v BETWEEN -{b} AND {b};"
    )
    query = bench.engine.queries["CSAS_O_1"].statement
    unwanted = int(query.split("g <> ")[1].split(" ")[0])
    for key, group, value, time in given:
        bench.pipe(CaseRecord("s", key, {"g": group, "v": value}, time))
    expected = [
        (key, {"X": value * a + group, "Y": "high" if value > b else "low"})
        for key, group, value, _ in given
        if group != unwanted or -b <= value <= b
    ]
    assert [(one.key, one.value) for one in bench.output()] == expected
    bench.close()


@pytest.mark.timeout(max(120, PLANS))
@pytest.mark.parametrize("part", range(6))
def test_a_random_plan_of_joins_groups_and_windows_ends_as_in_batch(part: int) -> None:
    """Filters, projections, all joins, groups, windows and HAVING, against SQLite over the same records."""
    found = [one for seed in range(part, PLANS, 6) if (one := difference(seed)) is not None]
    assert not found, "\n\n".join(found[:3])
