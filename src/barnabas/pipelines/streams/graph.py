"""A topology as a graph: nodes with operators, and what has to be known of each to run it.

`keyed` says that rows lie in the partition of their key, as producers and repartitions leave them; an operator that
needs that and does not find it gets a repartition in front. Stages are what lies between repartitions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from barnabas.pipelines.streams.errors import TopologyError, user_place
from barnabas.pipelines.streams.operators.operator import Operator
from barnabas.pipelines.streams.operators.process import Process
from barnabas.pipelines.streams.operators.stateless import Peek, Repartition, Sink, Source
from barnabas.pipelines.streams.serdes import Serde
from barnabas.pipelines.streams.windows import Windows

BATCH, CHANGES = "batch", "changes"  # a key once a batch, or a row for every record that changes it


class Facts(TypedDict, total=False):
    """What is told of a node; the rest is as of its first input."""

    key_serde: Serde[Any]
    value_serde: Serde[Any]
    keyed: bool
    table: bool
    windows: Windows | None
    store_name: str | None
    emit: str | None


@dataclass(eq=False)
class Node:
    number: int
    operator: Operator
    inputs: tuple[Node, ...]
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    keyed: bool
    table: bool = False
    windows: Windows | None = None
    store_name: str | None = None  # of a table that can be looked up
    emit: str | None = None  # of an aggregate, where it is not the topology's
    where: str = field(default_factory=user_place)  # file and line that made it

    @property
    def name(self) -> str:
        return f"{self.operator.kind}-{self.number}"

    @functools.cached_property
    def stage(self) -> int:
        if isinstance(self.operator, Repartition):
            return self.inputs[0].stage + 1
        return max((one.stage for one in self.inputs), default=0)

    @property
    def is_end(self) -> bool:
        ends = isinstance(self.operator, Peek) and self.operator.ends
        return ends or isinstance(self.operator, (Sink, Process))


@dataclass(eq=False)
class GlobalNode:
    """A table that every partition has whole."""

    topic: str
    store_name: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]


@dataclass
class NamedStore:
    """What may be asked for from outside; `shape` is keys, windows or sessions."""

    name: str
    node: Node
    shape: str


@dataclass
class Graph:
    nodes: list[Node] = field(default_factory=list)
    global_tables: list[GlobalNode] = field(default_factory=list)
    named_stores: list[NamedStore] = field(default_factory=list)
    emit: str = BATCH  # what aggregates show: BATCH or CHANGES

    def add(self, operator: Operator, *inputs: Node, **facts: Unpack[Facts]) -> Node:
        for name in operator.stores:
            self.check_new_store(name)
        first = inputs[0] if inputs else None
        if first is not None:
            above = Facts(
                key_serde=first.key_serde,
                value_serde=first.value_serde,
                keyed=first.keyed,
                table=first.table,
                windows=first.windows,
            )
            facts = {**above, **facts}
        node = Node(len(self.nodes), operator, inputs, **facts)
        self.nodes.append(node)
        return node

    def check_new_store(self, name: str) -> None:
        used = [one for node in self.nodes for one in node.operator.stores]
        if name in used or any(name == one.store_name for one in self.global_tables):
            raise TopologyError(f"there are two stores named {name}: give one of them another store=")

    def keyed(self, node: Node) -> Node:
        """The node, or a repartition behind it where keys were changed."""
        return node if node.keyed else self.add(Repartition(), node, keyed=True)

    def sources(self) -> list[tuple[Node, Source]]:
        return [(node, node.operator) for node in self.nodes if isinstance(node.operator, Source)]

    def sinks(self) -> list[tuple[Node, Sink]]:
        return [(node, node.operator) for node in self.nodes if isinstance(node.operator, Sink)]

    @property
    def stages(self) -> int:
        return max((node.stage for node in self.nodes), default=0) + 1

    def topics(self) -> list[str]:
        """Those of tables first: of records of one time, a table's come before a stream's."""
        tables = {topic for node, source in self.sources() for topic in source.topics if self._is_table(node)}
        found = [topic for _, source in self.sources() for topic in source.topics]
        return list(dict.fromkeys([*(one for one in found if one in tables), *found]))

    def _is_table(self, node: Node) -> bool:
        return any(node in one.inputs and one.table for one in self.nodes)

    def consumers(self, node: Node) -> Iterator[Node]:
        return (one for one in self.nodes if node in one.inputs)
