"""Whether the records of a join can meet: its topics have the same number of partitions."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.metastore import Metastore
from barnabas.pipelines.sql.plan.planner import Planned
from barnabas.pipelines.streams.checks import not_co_partitioned


def check_partitions(metastore: Metastore, planned: Planned, partitions_of: Callable[[str], int]) -> None:
    """`partitions_of` is told a topic; 0 is one that is not there, which is somebody else's matter."""
    graph = planned.topology.graph
    if len(graph.topics()) < 2:
        return
    names = {source.topic: source.name for source in map(metastore.source, planned.sources)}
    partitions = {topic: partitions_of(topic) for topic in graph.topics()}
    for _, counts in not_co_partitioned(graph, partitions):
        if 0 in counts.values():
            continue
        (left, here), *others = counts.items()
        right, there = next(one for one in others if one[1] != here)
        one, other = names.get(left, left), names.get(right, right)
        raise SqlError(
            f"Can't join `{one}` with `{other}` since the number of partitions don't match. `{one}` partitions = "
            f"{here}; `{other}` partitions = {there}. Please repartition either one so that the number of partitions "
            "match."
        )
