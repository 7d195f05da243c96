"""`python -m benchmarks.sql_throughput [case ...]`: persistent queries beside the same topologies written by hand.

Both read the same topic of a node of ours and write back to a topic exactly once, by turns in one session on two cores;
aggregates show every change on both sides. Rates are those of the batches alone, medians of the rounds after one that
is not counted. `filter` is CREATE STREAM AS with WHERE, `count` a count by key, `average` one in windows of a minute,
`join` a stream with a table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from barnabas.testing import Node
from benchmarks import load
from benchmarks.streams_cases import PARTITIONS, SCHEMA, committed, fill, finished

KEYS = 1_000
SOURCES = (
    "CREATE STREAM s (k STRING KEY, id BIGINT, kind STRING, amount DOUBLE, note STRING)"
    " WITH (kafka_topic='in', value_format='JSON');",
    "CREATE TABLE t (k STRING PRIMARY KEY, name STRING) WITH (kafka_topic='in-table', value_format='JSON');",
)


def filter_by_hand(made: Any, written: str) -> None:
    from barnabas.streams import col
    from barnabas.streams import json as json_serde

    stream = made.stream("in", value=json_serde(SCHEMA)).filter(col("value.amount") > 25)
    stream.map_values(id=col("value.id"), twice=col("value.amount") * 2).to(written)


def count_by_hand(made: Any, written: str) -> None:
    from barnabas.streams import json as json_serde

    made.stream("in", value=json_serde(SCHEMA)).group_by_key().count().map_values(lambda n: {"n": n}).to(written)


def average_by_hand(made: Any, written: str) -> None:
    from barnabas.streams import json as json_serde
    from barnabas.streams import tumbling

    grouped = made.stream("in", value=json_serde(SCHEMA)).group_by_key().windowed_by(tumbling(60_000))
    folded = grouped.aggregate(lambda: (0, 0.0), lambda key, value, found: (found[0] + 1, found[1] + value["amount"]))
    folded.map_values(lambda found: {"a": found[1] / found[0]}).to(written)


def join_by_hand(made: Any, written: str) -> None:
    from barnabas.streams import json as json_serde

    stream, table = made.stream("in", value=json_serde(SCHEMA)), made.table("in-table")
    stream.join(table, lambda value, row: {"id": value["id"], "name": row["name"]}).to(written)


CASES: dict[str, tuple[str, Callable[[Any, str], None]]] = {
    "filter": ("CREATE STREAM {o} AS SELECT k, id, amount * 2 AS twice FROM s WHERE amount > 25;", filter_by_hand),
    "count": ("CREATE TABLE {o} AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;", count_by_hand),
    "average": (
        "CREATE TABLE {o} AS SELECT k, AVG(amount) AS a FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k;",
        average_by_hand,
    ),
    "join": ("CREATE STREAM {o} AS SELECT s.k AS k, id, name FROM s JOIN t ON s.k = t.k;", join_by_hand),
}


def by_sql(text: str, written: str) -> Any:
    from barnabas.pipelines.sql.engine import Engine
    from barnabas.pipelines.sql.language.statements import parse_statement

    engine = Engine(settings={"processing.guarantee": "exactly_once_v2"}, log_topic="log")
    for number, one in enumerate((*SOURCES, text.replace("{o}", f"`{written}`"))):
        change = engine.apply(parse_statement(one), number)
    assert change.starts is not None
    return change.starts.planned.topology


def by_hand(build: Callable[[Any, str], None], written: str) -> Any:
    from barnabas.streams import Topology

    made = Topology("by-hand", processing_guarantee="exactly_once_v2", emit="changes")
    build(made, written)
    return made


def compare(node: Node, spark: Any, name: str, options: argparse.Namespace) -> None:
    servers = node.bootstrap_servers
    text, build = CASES[name]
    took: dict[str, list[float]] = {"sql": [], "by hand": []}
    results: dict[str, int] = {}
    for turn in range(options.rounds + 1):
        for side in list(took) if turn % 2 else list(took)[::-1]:
            written = f"out{os.urandom(4).hex()}"
            load.create_topic(servers, written, PARTITIONS)
            made = by_sql(text, written) if side == "sql" else by_hand(build, written)
            run = made.start(
                spark,
                bootstrap_servers=servers,
                checkpoint=tempfile.mkdtemp(prefix="barnabas-sql-"),
                trigger={"availableNow": True},
                max_batch_records=None if name == "join" else options.records // 2,
            )
            seconds = finished(run.queries[0])
            results[side] = committed(servers, written)
            load.delete_topic(servers, written)
            if turn:
                took[side].append(seconds)
        if results["sql"] != results["by hand"]:
            raise RuntimeError(f"{name}: the numbers of results differ: {results}")
    rates = {side: options.records / statistics.median(seconds) for side, seconds in took.items()}
    print(
        f"{name:10} sql {rates['sql']:>9,.0f} records/s   by hand {rates['by hand']:>9,.0f} records/s   "
        f"ratio {rates['sql'] / rates['by hand']:.2f}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sql_throughput", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"some of {', '.join(CASES)}; all if none")
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    if unknown := [name for name in options.cases if name not in CASES]:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {', '.join(CASES)}")
    import barnabas.spark

    spark = barnabas.spark.session("benchmark", master="local[2]", conf={"spark.log.level": "ERROR"})
    with Node() as node:
        servers = node.bootstrap_servers
        load.create_topic(servers, "log", 1)
        for topic in ("in", "in-table"):
            load.create_topic(servers, topic, PARTITIONS)
        client = load.producer(servers)
        rows = [{"key": b"key-%d" % one, "value": b'{"name": "n%d"}' % one} for one in range(KEYS)]
        client.produce_batch("in-table", rows)
        client.flush()
        fill(servers, "in", options.records, KEYS)
        for name in options.cases or CASES:
            compare(node, spark, name, options)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
