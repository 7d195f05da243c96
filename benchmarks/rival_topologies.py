"""The workloads of streams_rivals.py with barnabas.streams, exactly once.

As a file for `barnabas pipeline run`:  rival_topologies.py -- WORKLOAD INPUT TABLE OUTPUT
As a driver in which one topology after the other runs in one session, warm:  rival_topologies.py driver
It takes the orders that java/Rival.java takes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from barnabas.streams import Topology, col, tumbling
from barnabas.streams import json as json_serde

MINUTE_MS = 60_000
SCHEMA = "id long, kind string, amount double, note string"


def filtered(made: Topology, read: str, table: str, written: str) -> None:
    stream: Any = made.stream(read, value=json_serde(SCHEMA)).filter(col("value.amount") > 25)
    stream.map_values(id=col("value.id"), twice=col("value.amount") * 2).to(written)


def filtered_by_functions(made: Topology, read: str, table: str, written: str) -> None:
    stream: Any = made.stream(read).filter(lambda key, value: value["amount"] > 25)
    stream.map_values(lambda value: {"id": value["id"], "twice": value["amount"] * 2}).to(written)


def counted(made: Topology, read: str, table: str, written: str) -> None:
    made.stream(read).group_by_key().count().to(written)


def averaged(made: Topology, read: str, table: str, written: str) -> None:
    grouped: Any = made.stream(read, value=json_serde(SCHEMA)).group_by_key()
    grouped = grouped.windowed_by(tumbling(MINUTE_MS, grace=0))
    grouped.aggregate(n=col("value.amount").count(), average=col("value.amount").avg()).to(written)


def joined(made: Topology, read: str, table: str, written: str) -> None:
    def together(value: Any, row: Any) -> Any:
        return {"id": value["id"], "amount": value["amount"], "name": row["name"]}

    made.stream(read).join(made.table(table), together).to(written)


WORKLOADS = {
    "filter": filtered,
    "filter-functions": filtered_by_functions,
    "count": counted,
    "average": averaged,
    "join": joined,
    "count-large": counted,
}


def built(workload: str, name: str, read: str, table: str, written: str) -> Topology:
    settings: dict[str, Any] = {}
    if workload == "count-large":
        from benchmarks.rival_load import LARGE_CACHE_BYTES

        settings["state_cache_bytes"] = LARGE_CACHE_BYTES
    made = Topology(name, processing_guarantee="exactly_once_v2", **settings)
    WORKLOADS[workload](made, read, table, written)
    return made


def drive() -> None:
    import barnabas.spark

    with contextlib.redirect_stdout(sys.stderr):
        spark = barnabas.spark.session("rival", master="local[2]", conf={"spark.log.level": "ERROR"})
    run: Any = None
    for line in sys.stdin:
        words = line.split()
        if words[0] == "start":
            workload, name, servers, read, table, written, directory = words[1:]
            run = built(workload, name, read, table, written).start(
                spark, bootstrap_servers=servers, checkpoint=directory
            )
        else:
            run.stop()
        print("started" if words[0] == "start" else "stopped", flush=True)
    spark.stop()


def main() -> None:
    import barnabas.spark

    if sys.argv[1] == "driver":
        drive()
        return
    workload, read, table, written = sys.argv[1:]
    given = os.environ.get("RIVAL_RUN_ON_MS")  # 0: a batch of Spark's for every few records
    made = built(workload, "rival", read, table, written)
    made.start(barnabas.spark.session(), run_on_ms=None if given is None else int(given)).await_termination()


if __name__ == "__main__":
    main()
