"""A topology in words, in the shape of Kafka Streams' description: sub-topologies, and in them what leads where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.process import Process
from barnabas.pipelines.streams.operators.stateless import Repartition, Sink, Source

if TYPE_CHECKING:
    from barnabas.pipelines.streams.figures import Figures
    from barnabas.pipelines.streams.topology import Topology


def described(topology: Topology, figures: Figures | None = None) -> str:
    graph = topology.graph
    lines = ["Topologies:"]
    for number, nodes in enumerate(sub_topologies(graph)):
        lines.append(f"   Sub-topology: {number}")
        for node in nodes:
            first, *rest = lines_of(graph, node)
            lines += [first + told(figures, node.name), *rest]
    for table in graph.global_tables:
        lines.append(f"   Global table: {table.store_name} (topic: {table.topic})")
    if figures is not None and figures.state:
        rows, size = (sum(getattr(one, name) for one in figures.state.values()) for name in ("rows", "bytes"))
        lines.append(f"   State: {rows:,} rows, {size:,} bytes in {len(figures.state)} partitions")
    return "\n".join(lines) + "\n"


def told(figures: Figures | None, name: str) -> str:
    """What a running topology's operator has done so far."""
    found = None if figures is None else figures.operators.get(name)
    if found is None:
        return ""
    parts = [f"{found.rows_in:,} in", f"{found.rows_out:,} out", f"{found.seconds:.2f} s"]
    more = {"late": found.late, "skipped": found.skipped, "dead letters": found.dead_letters}
    parts += [f"{count:,} {what}" for what, count in more.items() if count]
    return f" [{', '.join(parts)}]"


def lines_of(graph: Graph, node: Node) -> list[str]:
    operator = node.operator
    after = ", ".join(one.name for one in graph.consumers(node)) or "none"
    before = ", ".join(one.name for one in node.inputs) or "none"
    if isinstance(operator, Source):
        topics = ", ".join(operator.topics)
        return [f"    Source: {node.name} (topics: [{topics}])", f"      --> {after}"]
    if isinstance(operator, Sink):
        return [f"    Sink: {node.name} (topic: {operator.topic})", f"      <-- {before}"]
    given = operator.given_stores if isinstance(operator, Process) else operator.stores
    beside = {one for one in given for other in given if one.startswith(f"{other}-")}  # its times
    stores = ", ".join(one for one in given if one not in beside)
    detail = f", {operator.detail()}" if operator.detail() else ""
    kind = "Repartition" if isinstance(operator, Repartition) else "Processor"
    return [f"    {kind}: {node.name} (stores: [{stores}]{detail})", f"      --> {after}", f"      <-- {before}"]


def sub_topologies(graph: Graph) -> list[list[Node]]:
    """What hangs together without a repartition between."""
    group = {node.number: node.number for node in graph.nodes}

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    for node in graph.nodes:
        if not isinstance(node.operator, Repartition):
            for above in node.inputs:
                if above.stage == node.stage:
                    ends = sorted((root(node.number), root(above.number)))
                    group[ends[1]] = ends[0]
    found: dict[int, list[Node]] = {}
    for node in graph.nodes:
        found.setdefault(root(node.number), []).append(node)
    return [found[number] for number in sorted(found)]
