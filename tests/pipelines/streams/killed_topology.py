"""A driver to be killed: a topology that copies records, and counts them and adds them up by key.

python killed_topology.py SERVERS CHECKPOINTS INPUT COPIES TOTALS CORES CACHE [RUN_ON_MS]; it runs until it is killed.
With a number for RUN_ON_MS its batches run on for so long; without one it counts behind a repartition.
"""

from __future__ import annotations

import sys

from barnabas.spark import session
from barnabas.streams import STRING, Topology

SUBMITTED = "submitted"  # instead of a number of cores: spark-submit has said where it runs


def main(
    servers: str, checkpoints: str, read: str, copies: str, totals: str, cores: str, cache: str, run_on_ms: str = ""
) -> None:
    master = None if cores == SUBMITTED else f"local[{cores},4]"
    spark = session("killed", master=master, conf={"spark.log.level": "ERROR"})
    topology = Topology("killed", processing_guarantee="exactly_once_v2", state_cache_bytes=int(cache))
    records = topology.stream(read, value=STRING)
    records.to(copies)
    grouped = records.group_by_key() if run_on_ms else records.group_by(lambda key, value: key, key=STRING)
    added = grouped.aggregate(lambda: (0, 0), lambda key, value, total: (total[0] + 1, total[1] + int(value)))
    added.map_values(lambda total: f"{total[0]} {total[1]}").to(totals)
    run = topology.start(
        spark,
        bootstrap_servers=servers,
        checkpoint=checkpoints,
        trigger={"processingTime": "200 milliseconds"},
        max_batch_records=5_000,
        run_on_ms=int(run_on_ms or 0),
    )
    print("running", flush=True)
    run.await_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
