"""Runs cases on two clusters side by side, in turns, and shows the table; the rounds of several runs add up."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import report
from benchmarks.cluster_sides import SIDES, BarnabasCluster, KafkaCluster, Side
from benchmarks.rows import Row

Figures = dict[str, float]
Measured = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Shape:
    """A cluster: so many brokers, so many controllers of their own, and what is configured."""

    brokers: int
    controllers: int = 0
    config: tuple[tuple[str, str], ...] = ()

    def build(self, side: type[Side]) -> Side:
        return side(self.brokers, self.controllers, config=dict(self.config), timeout_s=120)


@dataclass(frozen=True)
class ClusterCase:
    """`by_itself`: the case makes what it needs; else it gets a running cluster, which it leaves whole."""

    name: str
    about: str
    measure: Callable[[Side, bool], Figures] | None = None
    by_itself: Callable[[type[Side], bool], Figures] | None = None


def main(
    module: str,
    about: str | None,
    cases: Sequence[ClusterCase],
    rows: Sequence[Row],
    shape: Shape,
    *,
    first: Callable[[Side], Figures] | None = None,
) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=about,
        epilog="\n".join(f"{case.name}: {case.about}" for case in cases),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", choices=[[], *(case.name for case in cases)], metavar="case")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small sizes: tries the harness")
    parser.add_argument("--only", choices=("kafka", "barnabas"))
    parser.add_argument("--json", type=Path, default=Path("build") / f"{module.rpartition('.')[2]}.json")
    parser.add_argument("--add", type=Path, action="append", default=[], help="the rounds of an earlier run")
    options = parser.parse_args()
    chosen = [case for case in cases if case.name in options.cases or not options.cases]
    sides = {None: SIDES, "kafka": (KafkaCluster,), "barnabas": (BarnabasCluster,)}[options.only]
    measured: Measured = defaultdict(lambda: defaultdict(list))
    for path in options.add:
        report.read_rounds(path, measured)

    def note(side: type[Side], name: str, began: float, figures: Figures) -> None:
        shown = ", ".join(f"{key} {report.number(value)}" for key, value in figures.items())
        print(f"{name}, {side.name}, {time.perf_counter() - began:.0f} s: {shown}", file=sys.stderr, flush=True)
        for key, value in figures.items():
            measured[side.name][key].append(value)

    def take(side: type[Side], name: str, measure: Callable[[], Figures]) -> None:
        """One that fails is told and left out: the others are of use without it."""
        began = time.perf_counter()
        try:
            note(side, name, began, measure())
        except Exception:
            traceback.print_exc()
            print(f"{name}, {side.name}: failed after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        save()

    def save() -> None:
        figures = report.medians(measured)
        command = " ".join([f"python -m {module}", *sys.argv[1:]])
        report.write_json(options.json, figures, measured, options, command)

    for case in chosen:
        if case.by_itself is not None:
            for _ in range(options.rounds):
                for side in sides:
                    take(side, case.name, partial(case.by_itself, side, options.quick))
    shared = [case for case in chosen if case.measure is not None]
    with ExitStack() as stack:
        clusters = [stack.enter_context(shape.build(side)) for side in sides if shared]
        for cluster in clusters:
            if first is not None:
                take(type(cluster), "first", partial(first, cluster))
        for case in shared:
            for number in range(options.rounds):
                for cluster in clusters if number % 2 == 0 else clusters[::-1]:
                    os.sync()
                    assert case.measure is not None
                    take(type(cluster), case.name, partial(case.measure, cluster, options.quick))
    print(report.as_markdown(report.table(report.medians(measured), KafkaCluster.name, rows)))
    return 0
