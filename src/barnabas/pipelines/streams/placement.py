"""Which key of a store's entries decides their partition, and how that key is written: what has to be known to move
state when the number of a topic's partitions changes (`moving`).

A start notes it in the checkpoint, because the topology itself is in a program that need not be at hand. Rows lie where
the bytes of a key put them: of the record's key in the first stage, of what a repartition was given behind one. Windows
stand for the key within, as deep as aggregates of windows lie above each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.streams.checkpoint import NOTES
from barnabas.pipelines.streams.checks import topics_above
from barnabas.pipelines.streams.errors import StateDamaged, StreamsError
from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.sessions import AggregateBySession
from barnabas.pipelines.streams.operators.sliding import AggregateBySlidingWindow
from barnabas.pipelines.streams.operators.stateless import Repartition
from barnabas.pipelines.streams.operators.windowed import AggregateByWindow
from barnabas.pipelines.streams.serdes import Serde
from barnabas.pipelines.streams.state.shapes import KEYS
from barnabas.pipelines.streams.state.storage import Directory
from barnabas.pipelines.streams.state.versions import read_whole, write_bytes

FILE = "placement"
WINDOWED = (AggregateByWindow, AggregateBySession, AggregateBySlidingWindow)


@dataclass(frozen=True)
class StorePlacement:
    """`directory` is that of the stage, or of a global table; `topics` have as many partitions as the store, or where
    there are none, the widest topic has. A store without a shape can't be moved."""

    directory: str
    store: str
    shape: str | None
    serde: Serde[Any]
    depth: int
    topics: tuple[str, ...]
    operator: str

    def partitions(self, counts: Mapping[str, int], widest: int) -> int:
        return max((counts[topic] for topic in self.topics), default=widest)


@dataclass(frozen=True)
class Placement:
    stores: list[StorePlacement]
    topics: tuple[str, ...]  # those that are read by partition: the widest is looked for among them

    def of(self, directory: str) -> list[StorePlacement]:
        return [one for one in self.stores if one.directory == directory]

    def widest(self, counts: Mapping[str, int]) -> int:
        return max((counts[topic] for topic in self.topics), default=1)


def placement_of(graph: Graph) -> Placement:
    found = []
    for node in graph.nodes:
        shapes: dict[str, str | None] = dict.fromkeys(node.operator.stores) | node.operator.shapes()
        if not shapes:
            continue
        serde, depth = of_rows_for(node)
        topics = () if node.stage else tuple(topics_above(node))
        told = f"{node.name} ({node.where})" if node.where else node.name
        for store, shape in shapes.items():
            found.append(StorePlacement(str(node.stage), store, shape, serde, depth, topics, told))
    for table in graph.global_tables:
        name = table.store_name
        found.append(StorePlacement(name, "table", KEYS, table.key_serde, 0, (table.topic,), name))
    return Placement(found, tuple(graph.topics()))


def of_rows_for(node: Node) -> tuple[Serde[Any], int]:
    """How the keys are written of rows that come to a node, and how deep in windows they are."""
    above = node.inputs[0]
    return (above.key_serde, 0) if above.stage != node.stage else of_rows_of(above)


def of_rows_of(node: Node) -> tuple[Serde[Any], int]:
    if not node.inputs or isinstance(node.operator, Repartition):
        return node.key_serde, 0
    serde, depth = of_rows_for(node)
    return serde, depth + isinstance(node.operator, WINDOWED)


def write_placement(graph: Graph, checkpoint: Directory) -> None:
    from pyspark import cloudpickle

    data = cloudpickle.dumps(placement_of(graph))  # type: ignore[no-untyped-call]
    write_bytes(checkpoint.under(NOTES), FILE, data)


def read_placement(checkpoint: Directory) -> Placement:
    notes = checkpoint.under(NOTES)
    if not notes.has(FILE):
        raise StreamsError(
            f"{checkpoint.address} does not tell how its state is placed: start the topology once with this edition,"
            " it notes that"
        )
    found, _ = read_whole(notes, FILE)
    if not isinstance(found, Placement):
        raise StateDamaged(f"state file {notes.place_of(FILE)} is damaged: it is no placement")
    return found
