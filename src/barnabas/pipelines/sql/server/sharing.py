"""Queries that keep nothing share Spark queries: which of them ran together where, and how they come together anew.

    _shared/<id>/             checkpoint of a Spark query that runs several queries (or one)
    _shared/<id>/queries.json where each of them begins in it, and what its steps are called there
    <query id>/shared.json    the checkpoint that the query ran in last

Whenever a query comes or goes, all that shared a checkpoint leave it (`streams.position`), and begin in a new one where
they stand. A query stands where the checkpoint it ran in last stands, or where it began there if that is later. So who
is killed between two of these files being written goes on right: some queries stand at the end of the old checkpoint,
others at the beginning of a new one where nothing was done, and they come together once more.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.pipelines.spark.offsets import StreamOffset
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.plan.planner import Planned
from barnabas.pipelines.sql.plan.shared import shared, source_topic
from barnabas.pipelines.streams.checkpoint import read_note
from barnabas.pipelines.streams.checks import EXACTLY_ONCE
from barnabas.pipelines.streams.position import LEFT, NOTHING, leave
from barnabas.pipelines.streams.state.storage import LocalDirectory, settle
from barnabas.pipelines.streams.topology import Topology

PLACE, QUERIES, POINTER = "_shared", "queries.json", "shared.json"
EARLIEST, LATEST = -2, -1
FAR_RECORDS = 20_000  # a query that has more to do than that does it alone first, so that others need not wait
BATCH_RECORDS = 400_000

Begin = Mapping[str, Mapping[int, int]] | str


@dataclass(frozen=True)
class Together:
    """A checkpoint and the topology that goes on in it; where it begins if it is new."""

    directory: Path
    topology: Topology
    first: Mapping[str, Mapping[int, int]] | str


class Sharing:
    """`offsets` gives those of topics, `ids` tells a topic from another one of its name."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        offsets: Callable[[Iterable[str], int], dict[tuple[str, int], int]],
        ids: Callable[[Iterable[str]], Mapping[str, str]],
    ) -> None:
        self._directory, self._settings, self._offsets, self._ids = directory, settings, offsets, ids
        self._swept: set[Path] = set()  # workers may write figures there for a moment yet

    def steps(self, query_id: str) -> tuple[Path, Mapping[str, str]] | None:
        """The checkpoint that a query runs in, and what its steps are called there."""
        place = self._place(query_id)
        noted = None if place is None else _read(place / QUERIES)
        if place is None or noted is None or query_id not in noted:
            return None
        return place, noted[query_id]["steps"]

    def together(self, name: str, queries: Mapping[str, Planned]) -> Together | None:
        """What these queries go on with as they did; None if they have to come together first."""
        places = {self._place(one) for one in queries}
        place = places.pop()
        noted = None if places or place is None else _read(place / QUERIES)
        if place is None or noted is None or noted.keys() != queries.keys():
            return None
        if read_note(LocalDirectory(place), LEFT) is not None:
            return None
        begins = {one: StreamOffset.parse(told["begin"]) for one, told in noted.items()}
        found = _topology(name, {one: queries[one] for one in noted}, begins)
        return Together(place, found.topology, _first(begins))

    def standing(self, query_id: str, planned: Planned, begin: Begin) -> StreamOffset:
        """Where a query stands, whose former checkpoint is left; `begin` if it never ran."""
        topic = source_topic(planned)
        assert topic is not None
        first, ids = self._offsets([topic], EARLIEST), self._ids([topic])
        if not first:
            raise SqlError(f"topic {topic} can't be read: the topic does not exist")
        found = self._former(query_id, planned)
        if found.offsets and found.ids.get(topic, ids.get(topic)) != ids.get(topic):
            raise SqlError(f"topic {topic} was deleted and created again, so its offsets mean other records")
        given = {} if isinstance(begin, str) else {(topic, one): at for one, at in begin.get(topic, {}).items()}
        known = found.offsets or given
        return StreamOffset({**first, **known}, {topic: ids[topic]} if topic in ids else {})

    def behind(self, standing: StreamOffset) -> int:
        ends = self._offsets({topic for topic, _ in standing.offsets}, LATEST)
        return sum(max(end - standing.offsets.get(one, 0), 0) for one, end in ends.items())

    def begin(self, name: str, queries: Mapping[str, Planned], standing: Mapping[str, StreamOffset]) -> Together:
        """These queries in a checkpoint of their own, from where they stand."""
        directory = self._directory / PLACE / uuid.uuid4().hex
        found = _topology(name, queries, standing)
        told = {one: {"begin": standing[one].to_json(), "steps": found.steps[one]} for one in queries}
        _write(directory / QUERIES, told)
        former = {self._place(one) for one in queries}
        for one in queries:
            _write(self._directory / file_name(one) / POINTER, {"checkpoint": directory.name})
        settle()
        self._sweep({one for one in former if one is not None})
        return Together(directory, found.topology, _first(standing))

    def forget(self, query_id: str) -> None:
        place = self._place(query_id)
        shutil.rmtree(self._directory / file_name(query_id), ignore_errors=True)
        if place is not None:
            self._sweep({place})

    def _former(self, query_id: str, planned: Planned) -> StreamOffset:
        exactly_once = planned.topology.processing_guarantee == EXACTLY_ONCE
        own = self._directory / file_name(query_id)
        place = self._place(query_id)
        if place is None:  # of a version in which each query had a Spark query of its own
            return leave(LocalDirectory(own), self._settings, exactly_once=exactly_once) if own.is_dir() else NOTHING
        begins = {one: StreamOffset.parse(told["begin"]) for one, told in (_read(place / QUERIES) or {}).items()}
        partitions = len({one for begin in begins.values() for one in begin.offsets})
        left = leave(LocalDirectory(place), self._settings, exactly_once=exactly_once, partitions=partitions)
        begin = begins.get(query_id, NOTHING)
        if not begin.offsets:
            return left
        topics = {topic for topic, _ in begin.offsets}
        offsets = {one: at for one, at in left.offsets.items() if one[0] in topics}
        ids = {topic: left.ids.get(topic, begin.ids.get(topic, "")) for topic in topics}
        behind = {one: max(offsets.get(one, 0), begin.offsets.get(one, 0)) for one in {*offsets, *begin.offsets}}
        return StreamOffset(behind, {topic: told for topic, told in ids.items() if told})

    def _place(self, query_id: str) -> Path | None:
        told = _read(self._directory / file_name(query_id) / POINTER)
        return None if told is None else self._directory / PLACE / str(told["checkpoint"])

    def _sweep(self, places: set[Path]) -> None:
        """Removes checkpoints that no query ran in last."""
        pointers = (_read(one) for one in self._directory.glob(f"*/{POINTER}"))
        used = {str(told["checkpoint"]) for told in pointers if told is not None}
        self._swept |= {place for place in places if place.name not in used}
        for place in self._swept:
            shutil.rmtree(place, ignore_errors=True)


def _topology(name: str, queries: Mapping[str, Planned], begins: Mapping[str, StreamOffset]) -> Any:
    first = {(topic, one): at for topic, numbers in _first(begins).items() for one, at in numbers.items()}
    return shared(name, queries, {one: begin.offsets for one, begin in begins.items()}, first)


def _first(begins: Mapping[str, StreamOffset]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for begin in begins.values():
        for (topic, number), offset in begin.offsets.items():
            known = found.setdefault(topic, {})
            known[number] = min(known.get(number, offset), offset)
    return found


def file_name(query_id: str) -> str:
    return "".join(one if one.isalnum() or one in "._-" else "_" for one in query_id)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def _write(path: Path, told: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    LocalDirectory(path.parent).write(path.name, json.dumps(told).encode())
