"""Interactive queries: the stores of a topology read from outside, by key and by range, while it runs or not.

    counts = barnabas.streams.open_store("checkpoints/word-count", "counts")
    counts.get("hello"); counts.range("a", "c"); counts.fetch("anna", from_ms=0, to_ms=60_000)

A reader follows the files that the workers write, up to the last batch that Spark has committed: it sees what readers
of the topics see, and asks nobody. Each call looks for new batches first, and reads what they changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.pipelines.streams.checkpoint import committed_batch, state_of
from barnabas.pipelines.streams.errors import StateDamaged, StreamsError
from barnabas.pipelines.streams.expressions import Aggregate, Col
from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.folding import Summary
from barnabas.pipelines.streams.state.remote import storage_settings
from barnabas.pipelines.streams.state.storage import Directory, Storage
from barnabas.pipelines.streams.state.versions import PartitionState, versions_in
from barnabas.pipelines.streams.windows import SlidingWindows, TimeWindows, Windowed

if TYPE_CHECKING:
    from barnabas.pipelines.streams.topology import Topology

RETRIES = 20


class StoreFacts(NamedTuple):
    """Where a store lies and what its keys are; `columns` of aggregates of columns are (name, kind)."""

    directory: str
    inner: str
    shape: str
    size_ms: int
    columns: list[list[str]]


class StateStore:
    """A named store. Keys are as the topology has them; ranges have both ends, in the order of keys."""

    def __init__(self, name: str, facts: StoreFacts, checkpoint: Directory) -> None:
        self.name = name
        self._facts = facts
        self._checkpoint = checkpoint
        self._root = ""
        self._partitions: dict[int, PartitionState] = {}

    def get(self, key: Key) -> Any:
        """The value of a key, or None. In stores of windows the key is a `Windowed`."""
        if self._facts.shape == "keys":
            for table in self._tables():
                if key in table:
                    return self._shown(table[key])
            return None
        if not isinstance(key, Windowed):
            raise StreamsError(f"store {self.name} has windows: use fetch({key!r}), or get(Windowed(...))")
        return dict(self.fetch(key.key)).get(key)

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """Keys from `first` to `last`, both included; without one of them from the beginning or to the end."""
        for key, value in self.all():
            inner = key.key if isinstance(key, Windowed) else key
            try:
                inside = (first is None or inner >= first) and (last is None or inner <= last)
            except TypeError as error:
                raise StreamsError(
                    f"store {self.name} has key {inner!r}, which has no order with the range's"
                ) from error
            if inside:
                yield key, value

    def all(self) -> Iterator[tuple[Any, Any]]:
        """In the order of keys; of keys of several types, which have none, by type."""
        entries = list(self._entries())
        try:
            entries.sort(key=lambda entry: entry[0])
        except TypeError:
            entries.sort(key=lambda entry: (type(entry[0]).__name__, repr(entry[0])))
        yield from entries

    def fetch(self, key: Key, from_ms: int = 0, to_ms: int = 1 << 62) -> list[tuple[Windowed[Any], Any]]:
        """The windows of a key that begin in this time, by start; of sessions, those that overlap it."""
        if self._facts.shape == "keys":
            raise StreamsError(f"store {self.name} has no windows: use get() or range()")
        sessions = self._facts.shape == "sessions"
        found = [
            (window, value)
            for window, value in self._entries()
            if window.key == key
            and window.start_ms <= to_ms
            and (window.end_ms if sessions else window.start_ms) >= from_ms
        ]
        return sorted(found, key=lambda entry: (entry[0].start_ms, entry[0].end_ms))

    def __len__(self) -> int:
        return sum(1 for _ in self._entries())

    def _entries(self) -> Iterator[tuple[Any, Any]]:
        for table in self._tables():
            if self._facts.shape == "keys":
                yield from ((key, self._shown(value)) for key, value in table.items())
            elif self._facts.shape == "windows":
                for (start, key), value in table.items():
                    yield Windowed(key, start, start + self._facts.size_ms), self._shown(value)
            else:
                for key, sessions in table.items():
                    yield from ((Windowed(key, start, end), self._shown(value)) for start, end, value in sessions)

    def _shown(self, value: Value) -> Any:
        if not self._facts.columns:
            return value
        kinds = [Aggregate(kind, Col("value")) for _, kind in self._facts.columns]
        names = [name for name, _ in self._facts.columns]
        return {name: kind.result(part) for name, kind, part in zip(names, kinds, value, strict=True)}

    def _tables(self) -> list[MutableMapping[Any, Any]]:
        root = state_of(self._checkpoint).under(self._facts.directory)
        if self._root != root.address:  # the first time, and after the number of partitions was changed
            self._root, self._partitions = root.address, {}
        version = readable_version(self._checkpoint, root)
        found = []
        for number in sorted(int(one) for one in root.names() if one.isdigit()):
            state = self._partitions.setdefault(number, PartitionState(root.under(str(number))))
            load_patiently(state, version)
            found.append(state.store(self._facts.inner).data)
        return found


def load_patiently(state: PartitionState, version: int) -> None:
    """A version may be replaced by a snapshot while it is read."""
    for attempt in range(RETRIES):
        try:
            state.load(version)
            return
        except (FileNotFoundError, StateDamaged):
            if attempt == RETRIES - 1:
                raise


def readable_version(checkpoint: Directory, root: Directory) -> int:
    if checkpoint.under("offsets").names():
        last = committed_batch(checkpoint)
        return 0 if last is None else last + 1
    return max((max(newest, default=0) for one in root.names() for newest in versions_in(root.under(one))), default=0)


def store_of(topology: Topology, name: str, checkpoint: Directory) -> StateStore:
    facts = stores_of(topology)
    if name not in facts:
        known = ", ".join(sorted(facts)) or "it names none with store="
        raise StreamsError(f"topology {topology.name} has no store {name}: {known}")
    return StateStore(name, facts[name], checkpoint)


def open_store(checkpoint: str | Path, name: str, options: Mapping[str, str] | None = None) -> StateStore:
    """A store of the topology that runs, or ran, on a checkpoint. `options` are settings of the storage as Spark gets
    them, such as `fs.s3a.endpoint`."""
    directory = Storage(storage_settings(options or {})).at(checkpoint)
    try:
        noted = directory.under("barnabas").read("stores.json")
    except FileNotFoundError:
        raise StreamsError(f"{checkpoint} is no checkpoint of a topology") from None
    facts = {key: StoreFacts(**value) for key, value in json.loads(noted).items()}
    if name not in facts:
        raise StreamsError(f"{checkpoint} has no store {name}: {', '.join(sorted(facts)) or 'it has none with a name'}")
    return StateStore(name, facts[name], directory)


def write_facts(topology: Topology, checkpoint: Directory) -> None:
    facts = {name: facts._asdict() for name, facts in stores_of(topology).items()}
    checkpoint.under("barnabas").write("stores.json", json.dumps(facts, indent=1).encode())


def stores_of(topology: Topology) -> dict[str, StoreFacts]:
    found = {}
    for one in topology.graph.named_stores:
        windows = one.node.windows
        size_ms = windows.size_ms if isinstance(windows, TimeWindows) else 0
        if isinstance(windows, SlidingWindows):
            size_ms = windows.difference_ms
        folding = getattr(one.node.operator, "foldings", [None])[0]
        columns = [[name, kind.name] for name, kind in folding.wanted.items()] if isinstance(folding, Summary) else []
        found[one.name] = StoreFacts(str(one.node.stage), one.name, one.shape, size_ms, columns)
    for table in topology.graph.global_tables:
        found[table.store_name] = StoreFacts(table.store_name, "table", "keys", 0, [])
    return found
