"""Global tables before the first batch: their topics are read up to where they end now, and the query goes on there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.plan import Plan
from barnabas.pipelines.streams.state.storage import Directory, settle
from barnabas.pipelines.streams.state.versions import PartitionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST, LATEST = -2, -1
Offsets = dict[str, dict[int, int]]


def first_offsets(plan: Plan, starting: str | Mapping[str, Mapping[int, int]]) -> Offsets:
    """Of all partitions; one that a mapping leaves out begins at its beginning."""
    if not isinstance(starting, str) and (strange := set(starting) - set(plan.topics)):
        raise TopologyError(f"starting_offsets names topics that are not read: {', '.join(sorted(strange))}")
    first = LATEST if starting == "latest" else EARLIEST
    named = {} if isinstance(starting, str) else starting
    return {
        topic: {one: named.get(topic, {}).get(one, first) for one in range(plan.topic_partitions[topic])}
        for topic in plan.topics
    }


def filled(plan: Plan, settings: Mapping[str, str], spark: SparkSession) -> Offsets:
    """Reads the topics of global tables, and gives where the query goes on in them."""
    tables = plan.stages[0].global_tables
    topics = sorted({table.topic for table in tables})
    ends: Offsets = {topic: {} for topic in topics}
    reader = spark.read.format("barnabas").options(**settings).option("subscribe", ",".join(topics))
    records = reader.option("columns", "topic,partition,offset,key,value").load().toArrow()
    for table in tables:
        rows = [row for row in records.to_pylist() if row["topic"] == table.topic]
        for partition in range(table.partitions):
            here = sorted((row for row in rows if row["partition"] == partition), key=lambda row: row["offset"])
            ends[table.topic][partition] = here[-1]["offset"] + 1 if here else EARLIEST
            if here:
                keep(plan.state_of(f"{table.store_name}/{partition}"), table, here)
    settle()
    return ends


def keep(directory: Directory, table: Any, rows: list[dict[str, Any]]) -> None:
    state = PartitionState(directory)
    store = state.store("table")
    for row in rows:
        if row["key"] is not None:
            store.put(table.key_serde.decode(bytes(row["key"])), table.value_serde.from_bytes(row["value"]))
    store.take_changes()
    state.write_snapshot(0)
