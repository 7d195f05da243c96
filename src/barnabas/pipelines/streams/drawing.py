"""A topology as a picture: nodes in rows from the sources down, sub-topologies in frames, topics as rounded boxes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from barnabas.pipelines.streams.describe import sub_topologies
from barnabas.pipelines.streams.graph import Graph, Node
from barnabas.pipelines.streams.operators.stateless import Sink, Source

if TYPE_CHECKING:
    from barnabas.pipelines.streams.topology import Topology

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN, CHARACTER = 150, 40, 28, 34, 24, 6.7
Box = tuple[float, float, float]  # left, top, width


def drawn(topology: Topology) -> str:
    graph = topology.graph
    boxes = places(graph)
    width = max((left + wide for left, _, wide in boxes.values()), default=WIDTH) + MARGIN
    height = max((top for _, top, _ in boxes.values()), default=0) + HEIGHT + MARGIN + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(topology.name)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, nodes in enumerate(sub_topologies(graph)):
        parts.append(frame(number, [boxes[node.number] for node in nodes]))
    for node in graph.nodes:
        parts += [arrow(boxes[above.number], boxes[node.number]) for above in node.inputs]
    parts += [box(node, boxes[node.number]) for node in graph.nodes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def label(node: Node) -> tuple[str, str]:
    detail = node.operator.detail()
    stores = ", ".join(one for one in node.operator.stores if not one.endswith("-time"))
    return node.name, detail if isinstance(node.operator, (Source, Sink)) else stores or detail


def places(graph: Graph) -> dict[int, Box]:
    """Each node below those it reads from; a sub-topology beside the one before it."""
    found: dict[int, Box] = {}
    depth: dict[int, int] = {}
    for node in graph.nodes:
        depth[node.number] = 1 + max((depth[one.number] for one in node.inputs), default=-1)
    left = float(MARGIN)
    for nodes in sub_topologies(graph):
        rows: dict[int, list[Node]] = {}
        for node in nodes:
            rows.setdefault(depth[node.number], []).append(node)
        widest = left
        for level, row in rows.items():
            x = left
            for node in row:
                wide = max(WIDTH, CHARACTER * max(map(len, label(node))) + 16)
                found[node.number] = (x, MARGIN + 16 + level * (HEIGHT + GAP_Y), wide)
                x += wide + GAP_X
            widest = max(widest, x)
        left = widest + GAP_X
    return found


def frame(number: int, boxes: list[Box]) -> str:
    left, top = min(box[0] for box in boxes) - 12, min(box[1] for box in boxes) - 24
    width = max(box[0] + box[2] for box in boxes) - left + 12
    height = max(box[1] for box in boxes) + HEIGHT - top + 12
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" fill="#f6f7f9"'
        f' stroke="#ccd"/><text x="{left + 6:.0f}" y="{top + 14:.0f}" fill="#889">{number}</text>'
    )


def arrow(above: Box, below: Box) -> str:
    x1, y1, x2, y2 = above[0] + above[2] / 2, above[1] + HEIGHT, below[0] + below[2] / 2, below[1]
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}" fill="none"'
        ' stroke="#555" marker-end="url(#arrow)"/>'
    )


def box(node: Node, place: Box) -> str:
    left, top, width = place
    name, detail = label(node)
    topic = isinstance(node.operator, (Source, Sink))
    colour = "#dceefb" if topic else "#fdf0d5" if node.operator.stores else "#ffffff"
    middle = left + width / 2
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="{18 if topic else 4}"'
        f' fill="{colour}" stroke="#555"/><text x="{middle:.0f}" y="{top + 17:.0f}" text-anchor="middle">'
        f'{escape(name)}</text><text x="{middle:.0f}" y="{top + 32:.0f}" text-anchor="middle" fill="#667">'
        f"{escape(detail)}</text>"
    )
