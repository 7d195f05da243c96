"""What a topology does, in figures: rows, late and failed records and time by operator, state by partition, its cache.

A worker adds up what its tasks of a run have done, and writes the sums to `barnabas/figures` in the checkpoint, half a
second after a task at the latest and beside its work. Who sees the checkpoint adds up the workers. Figures begin with
a run; a batch that is done again counts again.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.state.disk import estimated_bytes
from barnabas.pipelines.streams.state.storage import Directory

if TYPE_CHECKING:
    from barnabas.pipelines.streams.plan import Plan
    from barnabas.pipelines.streams.state.versions import PartitionState

DIRECTORY = "figures"
WRITTEN_S = 0.5
SIZE_LOOK_S = 1.0  # between two looks at how large the state of a partition is
RUNS_KEPT = 8  # in a process
STATE_SUMS = ("rows", "bytes", "hits", "misses")
_lock = threading.Lock()
_sums: OrderedDict[str, WorkerSums] = OrderedDict()


@dataclass
class OperatorFigures:
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    skipped: int = 0
    dead_letters: int = 0
    seconds: float = 0.0

    def add(self, other: OperatorFigures) -> None:
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class StateFigures:
    """Of one partition of a stage, as the batch left it. Hits and misses are those of the cache before the disk."""

    batch: int = -1
    rows: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    on_disk: bool = False


@dataclass
class Figures:
    """`state` is by stage and partition, as `0/3`."""

    operators: dict[str, OperatorFigures] = field(default_factory=dict)
    state: dict[str, StateFigures] = field(default_factory=dict)

    def add(self, other: Figures) -> None:
        for name, one in other.operators.items():
            self.operators.setdefault(name, OperatorFigures()).add(one)
        for place, state in other.state.items():
            held = self.state.get(place)
            if held is None:
                self.state[place] = StateFigures(**asdict(state))
                continue
            newer = state if state.batch >= held.batch else held  # it went from a worker to another
            hits, misses = held.hits + state.hits, held.misses + state.misses
            self.state[place] = StateFigures(newer.batch, newer.rows, newer.bytes, hits, misses, newer.on_disk)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def summary(self) -> dict[str, Any]:
        """For the progress of a query: by operator what is not zero, and state of all partitions together."""
        operators = {
            name: {what: round(value, 3) for what, value in asdict(one).items() if value}
            for name, one in self.operators.items()
        }
        state = {what: sum(getattr(one, what) for one in self.state.values()) for what in STATE_SUMS}
        return {"operators": operators} | ({"state": state} if self.state else {})

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Figures:
        return cls(
            {name: OperatorFigures(**one) for name, one in told.get("operators", {}).items()},
            {place: StateFigures(**one) for place, one in told.get("state", {}).items()},
        )


class WorkerSums:
    """What this process has done in a run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.figures = Figures()
        self._looked_at: dict[str, float] = {}
        self._writing: threading.Timer | None = None

    def add(self, operators: Mapping[str, OperatorFigures]) -> None:
        with _lock:
            self.figures.add(Figures(dict(operators)))

    def look_at(self, place: str, state: PartitionState, batch: int, *, seldom: bool) -> None:
        now = time.monotonic()
        if seldom and now - self._looked_at.get(place, -SIZE_LOOK_S) < SIZE_LOOK_S:
            return
        self._looked_at[place] = now
        found = size_of(state, batch)
        with _lock:
            self.figures.state[place] = found

    def write_soon(self, plan: Plan) -> None:
        with _lock:
            if self._writing is None:
                self._writing = threading.Timer(WRITTEN_S, self._write, [plan])
                self._writing.daemon = True
                self._writing.start()

    def _write(self, plan: Plan) -> None:
        with _lock:
            self._writing = None
            data = json.dumps({"run": self.run} | self.figures.to_json()).encode()
        directory = plan.checkpoint.under("barnabas", DIRECTORY)
        try:
            directory.write(f"{socket.gethostname()}-{os.getpid()}.json", data)
        except (StreamsError, OSError):
            pass  # where state can't be written either, the batch says so


def sums_here(plan: Plan, run: str) -> WorkerSums:
    assert plan.state is not None
    found = _sums.get(plan.state)
    if found is None or found.run != run:
        found = _sums[plan.state] = WorkerSums(run)
        while len(_sums) > RUNS_KEPT:
            _sums.popitem(last=False)
    return found


def size_of(state: PartitionState, batch: int) -> StateFigures:
    if state.tables is None:
        data = [store.data for store in state.stores.values() if isinstance(store.data, dict)]
        return StateFigures(batch, sum(map(len, data)), sum(map(estimated_bytes, data)))
    rows, size, hits, misses = state.tables.figures()
    return StateFigures(batch, rows, size, hits, misses, on_disk=True)


def read_figures(checkpoint: Directory) -> Figures | None:
    """Of all workers of the newest run; None if there are none yet."""
    directory = checkpoint.under("barnabas", DIRECTORY)
    found = Figures()
    seen = False
    for name in directory.names():
        if name.startswith(".") or not name.endswith(".json"):
            continue
        try:
            told = json.loads(directory.read(name))
        except (FileNotFoundError, ValueError):
            continue
        found.add(Figures.from_json(told))
        seen = True
    return found if seen else None


def forget_figures(checkpoint: Directory) -> None:
    """Those of the run before."""
    checkpoint.under("barnabas", DIRECTORY).remove_all()
