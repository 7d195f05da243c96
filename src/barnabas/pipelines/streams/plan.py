"""A topology cut into stages, as the workers get it: what comes in, what runs, what leaves for later stages or topics.

A row that leaves for another stage goes to the partition of its key: murmur2 of the key's bytes, as producers have it.
The rows of a repartition arrive under the repartition's number, those that a later stage needs besides under the number
of the node they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.folding import Count
from barnabas.pipelines.streams.operators.operator import Operator
from barnabas.pipelines.streams.operators.stateless import Repartition, Sink, Source
from barnabas.pipelines.streams.serdes import Serde
from barnabas.pipelines.streams.slots import slotted


@dataclass
class SourceStep:
    number: int
    name: str
    topics: tuple[str, ...]
    key_serde: Serde[Any]
    value_serde: Serde[Any]


@dataclass
class Step:
    number: int
    name: str
    operator: Operator
    inputs: list[int]


@dataclass
class Send:
    """Rows of `origin`, which arrive as `port` in a later stage."""

    origin: int
    port: int
    stage: int
    name: str
    key_serde: Serde[Any]
    counts_only: bool = False  # of values only whether there is one


@dataclass
class SinkStep:
    number: int
    name: str
    topic: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    partitions: int | None  # of the topic, where rows are placed by the key within a windowed one
    input: int


@dataclass
class GlobalStep:
    topic: str
    store_name: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    partitions: int


@dataclass
class StagePlan:
    number: int
    last: bool
    sources: list[SourceStep] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    sinks: list[SinkStep] = field(default_factory=list)
    global_tables: list[GlobalStep] = field(default_factory=list)

    @property
    def stateful(self) -> bool:
        return any(step.operator.stores for step in self.steps)

    @property
    def whole_batches(self) -> bool:
        """Whether a batch of a partition has to be together before it is processed."""
        return self.number > 0 or self.stateful or bool(self.sends) or bool(self.global_tables)


@dataclass
class Plan:
    """`topics` are numbered in this order; `partitions` is what keys are spread over behind a repartition."""

    stages: list[StagePlan]
    topics: list[str]
    topic_partitions: Mapping[str, int]
    partitions: int
    state: str | None
    dead_letter: str | None
    places_windows: bool

    @property
    def stateful(self) -> bool:
        return any(stage.stateful or stage.global_tables for stage in self.stages)


def planned(
    graph: Graph,
    topic_partitions: Mapping[str, int],
    sink_partitions: Mapping[str, int],
    *,
    state: str | None,
    dead_letter: str | None,
) -> Plan:
    count = graph.stages
    stages = [StagePlan(number, number == count - 1) for number in range(count)]
    for node in graph.nodes:
        stage = stages[node.stage]
        operator = node.operator
        if isinstance(operator, Source):
            stage.sources.append(
                SourceStep(node.number, node.name, operator.topics, node.key_serde, slotted(graph, node))
            )
        elif isinstance(operator, Sink):
            above = node.inputs[0]
            placed = sink_partitions.get(operator.topic) or None if above.windows is not None else None
            stage.sinks.append(
                SinkStep(node.number, node.name, operator.topic, node.key_serde, node.value_serde, placed, above.number)
            )
        elif not isinstance(operator, Repartition):
            stage.steps.append(Step(node.number, node.name, operator, [one.number for one in node.inputs]))
        _send_inputs(graph, stages, node)
    for table in graph.global_tables:
        stages[0].global_tables.append(
            GlobalStep(table.topic, table.store_name, table.key_serde, table.value_serde, topic_partitions[table.topic])
        )
    topics = list(dict.fromkeys([*(table.topic for table in graph.global_tables), *graph.topics()]))
    return Plan(
        stages,
        topics,
        dict(topic_partitions),
        max((topic_partitions[topic] for topic in graph.topics()), default=1),
        state,
        dead_letter,
        any(sink.partitions is not None for stage in stages for sink in stage.sinks),
    )


def _send_inputs(graph: Graph, stages: list[StagePlan], node: Node) -> None:
    for above in node.inputs:
        if above.stage == node.stage:
            continue
        repartitioned = isinstance(node.operator, Repartition)
        port = node.number if repartitioned else above.number
        sends = stages[above.stage].sends
        if not any(send.port == port and send.stage == node.stage for send in sends):
            serde = node.key_serde if repartitioned else above.key_serde
            counted = repartitioned and counts_only(graph, node)
            sends.append(Send(above.number, port, node.stage, node.name, serde, counted))


def counts_only(graph: Graph, node: Node) -> bool:
    """Whether nobody behind a node looks at values."""
    consumers = list(graph.consumers(node))
    foldings = [folding for one in consumers for folding in getattr(one.operator, "foldings", [None])]
    return bool(foldings) and all(isinstance(folding, Count) for folding in foldings)
