"""The demo as a picture: what went in and came out over time, and how long it took. Plain SVG, no library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 860, 200, 70, 50, 70
STYLE = (
    "text{font:13px sans-serif;fill:#333}.title{font-size:16px;font-weight:bold}.grid{stroke:#ddd}"
    "polyline{fill:none;stroke-width:2}"
)
COLOURS = ("#4c72b0", "#55a868", "#c44e52")
Line = tuple[str, Sequence[tuple[float, float]]]


def draw(
    path: Path,
    history: Sequence[tuple[float, int, int, int]],
    latencies_ms: Sequence[tuple[float, str, float]],
    subtitle: str,
) -> None:
    names = ("readings in", "measurements out", "alerts out")
    rates = [(name, per_second([(each[0], each[column]) for each in history])) for column, name in enumerate(names, 1)]
    times = percentiles(latencies_ms)
    height = TOP + 2 * PANEL_HEIGHT + GAP + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text class="title" x="{LEFT}" y="22">The plant, through Spark, exactly once</text>',
        f'<text x="{LEFT}" y="40">{subtitle}</text>',
        *panel(TOP, "records per second", rates),
        *panel(TOP + PANEL_HEIGHT + GAP, "ms from reading to result topic", times),
        "</svg>",
    ]
    path.write_text("\n".join(parts), encoding="utf-8")


def per_second(points: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """Of running counts, a rate for every whole second."""
    found: list[tuple[float, float]] = []
    start = points[0] if points else (0.0, 0)
    for at, count in points:
        if at - start[0] >= 1:
            found.append((at, (count - start[1]) / (at - start[0])))
            start = at, count
    return found


def percentiles(latencies_ms: Sequence[tuple[float, str, float]]) -> list[Line]:
    if not latencies_ms:
        return []
    first = min(at for at, _, _ in latencies_ms)
    seconds: dict[int, list[float]] = {}
    for at, _, latency in latencies_ms:
        seconds.setdefault(int(at - first), []).append(latency)
    ordered = {second: sorted(found) for second, found in sorted(seconds.items())}
    return [
        ("p50", [(second, found[len(found) // 2]) for second, found in ordered.items()]),
        ("p99", [(second, found[len(found) * 99 // 100]) for second, found in ordered.items()]),
    ]


def panel(top: float, title: str, lines: Sequence[Line]) -> list[str]:
    points = [point for _, line in lines for point in line]
    widest = max((x for x, _ in points), default=1.0) or 1.0
    highest = max((y for _, y in points), default=1.0) or 1.0
    width = WIDTH - LEFT - 30
    parts = [f'<text x="{LEFT}" y="{top + 14}">{title}</text>']
    bottom = top + PANEL_HEIGHT
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (PANEL_HEIGHT - 30)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share * highest:,.0f}</text>')
        parts.append(f'<text x="{LEFT + share * width:.1f}" y="{bottom + 18}">{share * widest:.0f} s</text>')
    for number, (name, line) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        drawn = " ".join(
            f"{LEFT + x / widest * width:.1f},{bottom - y / highest * (PANEL_HEIGHT - 30):.1f}" for x, y in line
        )
        parts.append(f'<polyline stroke="{colour}" points="{drawn}"/>')
        parts.append(
            f'<text x="{WIDTH - 30}" y="{top + 14 + 16 * number}" text-anchor="end" style="fill:{colour}">{name}</text>'
        )
    return parts
