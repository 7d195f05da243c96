"""Several queries as one topology: those that keep nothing and read one topic each, whatever they make of it.

Their steps stand side by side, and a topic is read once for all. A query that stands behind the others in its topic
leaves out what it has done already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from barnabas.pipelines.sql.plan.planner import Planned
from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.stateless import Sink, Source
from barnabas.pipelines.streams.order import Numbers
from barnabas.pipelines.streams.rows import Rows
from barnabas.pipelines.streams.topology import Topology

Offsets = Mapping[tuple[str, int], int]


@dataclass
class Begins(Operator):
    """Records of a topic from these offsets on, by partition; of other partitions all."""

    offsets: Mapping[int, int]
    kind = "begins"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        if not len(rows):
            return rows
        partitions, offsets = task.offsets(rows.ranks)
        first: Numbers = np.zeros(int(partitions.max()) + 1, np.int64)
        for partition, offset in self.offsets.items():
            if partition < len(first):
                first[partition] = offset
        return rows.take(np.flatnonzero(offsets >= first[partitions]))


@dataclass(frozen=True)
class Shared:
    """`steps` tells by query what its own steps are called in the topology."""

    topology: Topology
    steps: Mapping[str, Mapping[str, str]]


def source_topic(planned: Planned) -> str | None:
    """Of a query that may share a topology: None of others."""
    graph = planned.topology.graph
    keeps = graph.stages > 1 or graph.global_tables or any(node.operator.stores for node in graph.nodes)
    topics = graph.topics()
    return topics[0] if not keeps and len(topics) == 1 else None


def shared(name: str, queries: Mapping[str, Planned], begins: Mapping[str, Offsets], first: Offsets) -> Shared:
    """`begins` is where each query begins, and `first` what is read at all."""
    guarantees = {one.topology.processing_guarantee for one in queries.values()}
    (guarantee,) = guarantees
    topology = Topology(name, processing_guarantee=guarantee)
    graph = topology.graph
    sources: dict[str, Node] = {}
    steps: dict[str, dict[str, str]] = {}
    for query_id, planned in queries.items():
        own = begins.get(query_id, {})
        later = {number: at for (topic, number), at in own.items() if at > first.get((topic, number), 0)}
        steps[query_id] = _added(graph, planned.topology.graph, sources, later)
    return Shared(topology, steps)


def _added(graph: Graph, one: Graph, sources: dict[str, Node], later: dict[int, int]) -> dict[str, str]:
    made: dict[int, Node] = {}
    for node in one.nodes:
        operator = node.operator
        if isinstance(operator, Source):
            (topic,) = operator.topics
            known = sources.get(topic)
            if known is None:
                known = sources[topic] = _copied(graph, node, operator, {})
            made[node.number] = graph.add(Begins(later), known) if later else known
            continue
        if isinstance(operator, Sink):
            operator = replace(operator, apart=True)
        made[node.number] = _copied(graph, node, operator, made)
    return {node.name: made[node.number].name for node in one.nodes}


def _copied(graph: Graph, node: Node, operator: Operator, made: Mapping[int, Node]) -> Node:
    inputs = tuple(made[above.number] for above in node.inputs)
    copy = replace(node, number=len(graph.nodes), operator=operator, inputs=inputs)
    graph.nodes.append(copy)
    return copy
