"""`python -m benchmarks [case ...]`: runs the cases, interleaved, and writes the table."""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks import process, report
from benchmarks.case import Case, Settings
from benchmarks.cases import CASES
from benchmarks.sides import BarnabasSide, KafkaSide, MockSide, Side
from tests.support import reference

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "benchmarks.md"
MOCK_CASES = {"produce", "inflight"}

Measured = dict[str, dict[str, list[float]]]
Factory = Callable[[], Side]
T = TypeVar("T")


def main() -> int:
    options = arguments()
    settings = Settings.quick() if options.quick else Settings()
    settings.large_mb = int(options.large_gb * 1000) if options.large_gb else affordable_mb(settings.large_mb)
    settings.rounds = options.rounds or settings.rounds
    reason = reference.available()
    yardstick: type[KafkaSide] | type[MockSide] = MockSide if reason else KafkaSide
    if reason:
        print(f"{reason}: librdkafka's mock cluster is the yardstick", file=sys.stderr)
    cases = [case for case in CASES if case.name in options.cases or not (options.cases or options.add or case.heavy)]
    if yardstick is MockSide:
        cases = [case for case in cases if case.name in MOCK_CASES]
    factories: list[Factory] = [yardstick, BarnabasSide]
    if options.only is not None:
        factories = [yardstick] if options.only == "kafka" else [BarnabasSide]
    measured: Measured = defaultdict(lambda: defaultdict(list))
    for path in options.add:
        report.read_rounds(path, measured)
    run_alone([case for case in cases if case.alone], factories, settings, measured)
    run_side_by_side([case for case in cases if not case.alone], factories, settings, measured)

    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    figures = report.medians(measured)
    lines = report.table(figures, yardstick.name)
    print(report.as_text(lines))
    report.write_json(options.json, figures, measured, settings, command)
    print(f"\nwritten: {options.json}")
    if options.document:
        report.write_document(DOCUMENT, options.section, lines, settings, command)
        print(f"written: {DOCUMENT.relative_to(ROOT)}")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument(
        "cases", nargs="*", metavar="case", help=f"one or more of {', '.join(names)}; if none, all but the heavy ones"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: tries the harness")
    parser.add_argument("--rounds", type=int, help="measured rounds (3)")
    parser.add_argument("--only", choices=["kafka", "barnabas"], help="one side alone")
    parser.add_argument("--large-gb", type=float, help="size of the large partition (5, less on a small disk)")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "benchmarks.json")
    parser.add_argument(
        "--document",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="rewrite docs/benchmarks.md (by default after a full run)",
    )
    parser.add_argument(
        "--add", type=Path, action="append", default=[], help="the rounds of an earlier run, its --json"
    )
    parser.add_argument("--section", default="result", help="which table of docs/benchmarks.md (result, log)")
    options = parser.parse_args()
    if unknown := [name for name in options.cases if name not in names]:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {', '.join(names)}")
    if options.document is None:
        options.document = not (options.quick or options.cases or options.only)
    return options


def affordable_mb(wanted: int) -> int:
    """Both servers keep the large partition: at most a fifth of the free disk each."""
    return min(wanted, shutil.disk_usage(tempfile.gettempdir()).free // 5_000_000)


def run_alone(cases: list[Case], factories: list[Factory], settings: Settings, measured: Measured) -> None:
    for case in cases:
        for number in rounds_of(case, settings):
            for factory in in_turns(factories, number):
                side = factory()
                try:
                    run(case, side, number, settings, measured)
                finally:
                    side.close()


def run_side_by_side(cases: list[Case], factories: list[Factory], settings: Settings, measured: Measured) -> None:
    if not cases:
        return
    sides: list[Side] = []
    try:
        for factory in factories:
            sides.append(factory())
            sides[-1].start()
        time.sleep(settings.idle_s)
        settings.idle_mb = {side.name: process.resident_mb(side.pid) for side in sides}
        ceiling = []
        if any(case.ceiling for case in cases) and MockSide not in factories:
            sides.append(MockSide())
            sides[-1].start()
            ceiling = sides[-1:]
        for case in cases:
            taking_part = [side for side in sides if case.ceiling or side not in ceiling]
            for number in rounds_of(case, settings):
                for side in in_turns(taking_part, number):
                    run(case, side, number, settings, measured)
    finally:
        for side in sides:
            side.close()


def run(case: Case, side: Side, number: int, settings: Settings, measured: Measured) -> None:
    os.sync()  # nobody pays for what another wrote
    began = time.perf_counter()
    figures = case.measure(side, settings)
    phase = "warm-up" if number < 0 else f"round {number + 1}"
    shown = ", ".join(f"{key} {report.number(value)}" for key, value in figures.items())
    print(f"{case.name} {phase}, {side.name}, {time.perf_counter() - began:.0f} s: {shown}", file=sys.stderr)
    if number >= 0:
        for key, value in figures.items():
            measured[side.name][key].append(value)


def rounds_of(case: Case, settings: Settings) -> range:
    return range(-settings.warmups if case.warm else 0, 1 if case.once else settings.rounds)


def in_turns(items: list[T], number: int) -> list[T]:
    return items if number % 2 == 0 else items[::-1]


if __name__ == "__main__":
    sys.exit(main())
