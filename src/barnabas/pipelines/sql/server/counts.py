"""What a persistent query has done, as DESCRIBE EXTENDED and /metrics tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from barnabas.pipelines.sql.operators import ReadSource
from barnabas.pipelines.streams.operators.stateless import BranchOutput, Sink

if TYPE_CHECKING:
    from barnabas.pipelines.streams.figures import Figures
    from barnabas.pipelines.streams.graph import Graph, Node

NO_NAMES: Mapping[str, str] = MappingProxyType({})
UNREADABLE = 1  # which output of a source has the lines of the processing log


@dataclass(frozen=True)
class Counts:
    """Records that came, that could not be read, and that were written."""

    read: int = 0
    unreadable: int = 0
    written: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.read + other.read, self.unreadable + other.unreadable, self.written + other.written)


def counted(graph: Graph, figures: Figures, names: Mapping[str, str] = NO_NAMES) -> Counts:
    """`names` tells what operators are called in the figures, if not by their own names."""

    def rows_in(nodes: list[Node]) -> int:
        found = [figures.operators.get(names.get(one.name, one.name)) for one in nodes]
        return sum(one.rows_in for one in found if one is not None)

    sources = [one for one in graph.nodes if isinstance(one.operator, ReadSource)]
    sinks = [one for one in graph.nodes if isinstance(one.operator, Sink)]
    lines = [one for one in sinks if is_log(one)]
    return Counts(rows_in(sources), rows_in(lines), rows_in([one for one in sinks if one not in lines]))


def is_log(sink: Node) -> bool:
    (before,) = sink.inputs
    return isinstance(before.operator, BranchOutput) and before.operator.number == UNREADABLE
