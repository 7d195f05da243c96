"""A topology cut into stages, as the workers get it: what comes in, what runs, what leaves for later stages or topics.

A row that leaves for another stage goes to the partition of its key: murmur2 of the key's bytes, as producers have it.
The rows of a repartition arrive under the repartition's number, those that a later stage needs besides under the number
of the node they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.pipelines.streams.graph import CHANGES, Graph, Node
from barnabas.pipelines.streams.operators.folding import Count
from barnabas.pipelines.streams.operators.operator import Function, Operator
from barnabas.pipelines.streams.operators.process import Process
from barnabas.pipelines.streams.operators.stateless import Branch, Repartition, Sink, Source
from barnabas.pipelines.streams.operators.suppress import Suppress
from barnabas.pipelines.streams.operators.tables import TableSource
from barnabas.pipelines.streams.operators.windowed import AggregateByWindow
from barnabas.pipelines.streams.order import forks
from barnabas.pipelines.streams.serdes import Serde
from barnabas.pipelines.streams.slots import slotted
from barnabas.pipelines.streams.state.storage import Directory, Storage
from barnabas.pipelines.streams.state.versions import CACHE_BYTES

ALL_TOPICS = -1  # the node that sources are behind


@dataclass
class SourceStep:
    number: int
    name: str
    topics: tuple[str, ...]
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    timestamp: Function | None = None  # gives the times of records


@dataclass
class Step:
    number: int
    name: str
    operator: Operator
    inputs: list[int]
    spreads: bool = False  # gives each of its rows a turn of its own


@dataclass
class Send:
    """Rows of `origin`, which arrive as `port` in a later stage, for the node `number` there."""

    number: int
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
    apart: bool = False


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
    forks: dict[int, tuple[int, ...]] = field(default_factory=dict)  # whose rows meet again, and who is behind
    merges_topics: bool = False  # records of several topics come to one place

    @property
    def stateful(self) -> bool:
        return any(step.operator.stores for step in self.steps)

    @property
    def tells_wall_clock(self) -> bool:
        return any(isinstance(step.operator, Process) for step in self.steps)

    @property
    def whole_batches(self) -> bool:
        """Whether a batch of a partition has to be together before it is processed."""
        needed = self.stateful or self.merges_topics or self.sends or self.global_tables
        return self.number > 0 or bool(needed)


@dataclass
class Plan:
    """`topics` are numbered in this order; `partitions` is what keys are spread over behind a repartition."""

    stages: list[StagePlan]
    topics: list[str]
    topic_partitions: Mapping[str, int]
    partitions: int
    state: str | None
    dead_letter: str | None
    state_cache_bytes: int  # of memory for state in a worker
    skips: bool  # records on which an operator fails are logged and left out
    places_windows: bool
    where: Mapping[str, str] = field(default_factory=dict)  # file and line that made an operator, by its name
    storage: Storage = field(default_factory=Storage)  # how the checkpoint is reached

    @property
    def stateful(self) -> bool:
        return any(stage.stateful or stage.global_tables for stage in self.stages)

    @property
    def can_run_on(self) -> bool:
        """Whether a task may go on behind its batch (`running_on`): where one stage does all, of the records of one
        topic, and nothing depends on Spark's batches."""
        first = self.stages[0]
        return first.last and len(self.topics) == 1 and not first.global_tables and not first.tells_wall_clock

    @property
    def checkpoint(self) -> Directory:
        return self.storage.at(self.checkpoint_address)

    @property
    def checkpoint_address(self) -> str:
        assert self.state is not None
        return self.state.rsplit("/", 2)[0]

    def state_of(self, name: str) -> Directory:
        assert self.state is not None
        return self.storage.at(self.state).under(*name.split("/"))


def planned(
    graph: Graph,
    topic_partitions: Mapping[str, int],
    sink_partitions: Mapping[str, int],
    *,
    state: str | None,
    dead_letter: str | None,
    skips: bool = False,
    state_cache_bytes: int = CACHE_BYTES,
    storage: Storage | None = None,
) -> Plan:
    count = graph.stages
    told = changes_seen(graph)
    stages = [StagePlan(number, number == count - 1) for number in range(count)]
    for node in graph.nodes:
        stage = stages[node.stage]
        operator = node.operator
        if isinstance(operator, Source):
            serdes = node.key_serde, slotted(graph, node)
            stage.sources.append(SourceStep(node.number, node.name, operator.topics, *serdes, operator.timestamp))
        elif isinstance(operator, Sink):
            above = node.inputs[0]
            placed = sink_partitions.get(operator.topic) or None if above.windows is not None else None
            facts = operator.topic, node.key_serde, node.value_serde, placed, above.number, operator.apart
            stage.sinks.append(SinkStep(node.number, node.name, *facts))
        elif not isinstance(operator, Repartition):
            if node.number in told and hasattr(operator, "every_change"):
                operator = replace(operator, every_change=True)  # type: ignore[type-var]
            stage.steps.append(Step(node.number, node.name, operator, [one.number for one in node.inputs]))
        _send_inputs(graph, stages, node)
    for stage in stages:
        _order(stage)
        _tell_sources(stage)
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
        state_cache_bytes,
        skips,
        any(sink.partitions is not None for stage in stages for sink in stage.sinks),
        {node.name: node.where for node in graph.nodes},
        storage or Storage(),
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
            sends.append(Send(node.number, above.number, port, node.stage, node.name, serde, counted))


def _tell_sources(stage: StagePlan) -> None:
    """Tells processors what comes to their sub-topology: its times are theirs."""
    parts: list[set[int]] = []
    for number, inputs in [(step.number, step.inputs) for step in stage.steps]:
        touching = [part for part in parts if part & {number, *inputs}]
        parts = [part for part in parts if part not in touching] + [{number, *inputs}.union(*touching)]
    made = {step.number for step in stage.steps}
    for step in stage.steps:
        if isinstance(step.operator, Process):
            (part,) = (one for one in parts if step.number in one)
            step.operator = replace(step.operator, sources=tuple(sorted(part - made)))


def changes_seen(graph: Graph) -> set[int]:
    """The nodes that give every row, not only the last one of a key in a batch: because they were asked to, or because
    somebody behind them looks at every row."""
    found: set[int] = set()
    for node in reversed(graph.nodes):
        if hasattr(node.operator, "every_change") and (node.emit or graph.emit) == CHANGES:
            found.add(node.number)
        for above in node.inputs:
            tells_time = isinstance(node.operator, Suppress) and isinstance(above.operator, AggregateByWindow)
            if node.number in found or (node.operator.sees_changes and not tells_time):
                found.add(above.number)
    return found


def _order(stage: StagePlan) -> None:
    """Finds out where rows of a stage meet, and whose order has to be kept for that."""
    by_topic: dict[str, list[SinkStep]] = {}
    for sink in stage.sinks:
        if not sink.apart:
            by_topic.setdefault(sink.topic, []).append(sink)
    meetings = [[step.number] for step in stage.steps if len(step.inputs) > 1]
    meetings += [[sink.number for sink in sinks] for sinks in by_topic.values() if len(sinks) > 1]
    meetings += [[send.number for send in stage.sends]] if len(stage.sends) > 1 else []
    consumers: dict[int, list[int]] = {}
    leads_on = [(step.number, step.inputs) for step in stage.steps]
    leads_on += [(sink.number, [sink.input]) for sink in stage.sinks]
    leads_on += [(send.number, [send.origin]) for send in stage.sends]
    for number, inputs in sorted(leads_on):
        for one in dict.fromkeys(inputs):
            consumers.setdefault(one, []).append(number)
    consumers[ALL_TOPICS] = sources_of_one_topic(stage)
    stage.forks = forks(consumers, meetings)
    for step in stage.steps:
        step.spreads = step.operator.several_rows and bool(meetings)
        if isinstance(step.operator, Branch):
            stage.forks.pop(step.number, None)  # each of its rows goes one way
    topics: dict[int, set[str]] = {source.number: set(source.topics) for source in stage.sources}
    for step in stage.steps:
        topics[step.number] = set().union(*(topics.get(one, set()) for one in step.inputs))
    ends = [set().union(*(topics.get(sink.input, set()) for sink in sinks)) for sinks in by_topic.values()]
    stage.merges_topics = any(len(found) > 1 for found in [*topics.values(), *ends])


def sources_of_one_topic(stage: StagePlan) -> list[int]:
    """Sources that read what others read too, those of tables first: rows of one record meet behind them."""
    tables = {one for step in stage.steps if isinstance(step.operator, TableSource) for one in step.inputs}
    topics = [topic for source in stage.sources for topic in source.topics]
    shared = [one.number for one in stage.sources if any(topics.count(topic) > 1 for topic in one.topics)]
    return sorted(shared, key=lambda number: (number not in tables, number))


def counts_only(graph: Graph, node: Node) -> bool:
    """Whether nobody behind a node looks at values."""
    consumers = list(graph.consumers(node))
    foldings = [folding for one in consumers for folding in getattr(one.operator, "foldings", [None])]
    return bool(foldings) and all(isinstance(folding, Count) for folding in foldings)
