"""The state of one partition on disk: a version per batch that touched it.

`12.delta` holds what batch 11 changed, `12.snapshot` everything; state before batch N is the newest version up to N,
read from the newest snapshot up to N and the deltas behind it. Nothing is ever changed in place: a batch that is done
again reads what it read the first time, and writes the same version anew. A version is written under another name and
renamed, so what has a name is whole; versions of batches that never came to be are removed when a query starts. Who
holds a version in memory only reads the deltas behind it; versions that another worker wrote come in that way.

A snapshot is written when the deltas since the last one hold as many bytes as it, so all writing is in proportion to
what changes. Files before the last but one snapshot are removed.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

from barnabas.pipelines.streams.state.stores import Changes, Store

DELTA, SNAPSHOT = ".delta", ".snapshot"
SNAPSHOT_BYTES_MIN = 1 << 18
DELTAS_MAX = 64
NONE = -1  # the version of nothing; 0 is what was there before the first batch


class PartitionState:
    """The stores of one partition at one version."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = NONE
        self.stores: dict[str, Store] = {}
        self._delta_bytes = 0
        self._deltas = 0
        self._snapshot_bytes = 0

    def store(self, name: str) -> Store:
        found = self.stores.get(name)
        if found is None:
            found = self.stores[name] = Store()
        return found

    def load(self, version: int) -> None:
        """The state before batch `version`: what is newer in files is a batch that is being done again."""
        deltas, snapshots = versions_in(self.directory)
        newest = max((one for one in (*deltas, *snapshots) if one <= version), default=NONE)
        if newest == self.version:
            return
        needed = [one for one in deltas if self.version < one <= newest]
        if self.version > newest or not needed or self._read(needed[0])[0] != self.version:
            base = max((one for one in snapshots if one <= newest), default=NONE)
            self._start_at(base)
            needed = [one for one in deltas if base < one <= newest]
        for one in needed:
            before, changes, size = self._read(one)
            assert before == self.version, f"{self.directory} lacks the state between {self.version} and {before}"
            for name, changed in changes.items():
                self.store(name).apply(changed)
            self.version = one
            self._delta_bytes += size
            self._deltas += 1

    def _read(self, version: int) -> tuple[int, dict[str, Changes], int]:
        data = (self.directory / f"{version}{DELTA}").read_bytes()
        before, changes = pickle.loads(data)
        return before, changes, len(data)

    def _start_at(self, base: int) -> None:
        self.stores, self.version = {}, base
        self._delta_bytes = self._deltas = self._snapshot_bytes = 0
        if base != NONE:
            data = (self.directory / f"{base}{SNAPSHOT}").read_bytes()
            self.stores = {name: Store(found) for name, found in pickle.loads(data).items()}
            self._snapshot_bytes = len(data)

    def save(self, version: int) -> None:
        """What the batch before `version` has left."""
        changes = {name: store.take_changes() for name, store in self.stores.items() if store.changed}
        if not changes:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._delta_bytes += write_whole(self.directory / f"{version}{DELTA}", (self.version, changes))
        self._deltas += 1
        self.version = version
        if self._delta_bytes > max(self._snapshot_bytes, SNAPSHOT_BYTES_MIN) or self._deltas >= DELTAS_MAX:
            self.write_snapshot(version)

    def write_snapshot(self, version: int) -> None:
        whole = {name: store.data for name, store in self.stores.items()}
        self.directory.mkdir(parents=True, exist_ok=True)
        self._snapshot_bytes = write_whole(self.directory / f"{version}{SNAPSHOT}", whole)
        self._delta_bytes = self._deltas = 0
        self.version = version
        self._remove_old(version)

    def _remove_old(self, version: int) -> None:
        deltas, snapshots = versions_in(self.directory)
        kept = max((one for one in snapshots if one < version), default=NONE)
        for suffix, found in ((DELTA, deltas), (SNAPSHOT, snapshots)):
            for one in found:
                if one < kept or (one == kept and suffix == DELTA):
                    (self.directory / f"{one}{suffix}").unlink(missing_ok=True)


def versions_in(directory: Path) -> tuple[list[int], list[int]]:
    deltas, snapshots = [], []
    try:
        names = [one.name for one in directory.iterdir()]
    except FileNotFoundError:
        return [], []
    for name in names:
        number, dot, suffix = name.partition(".")
        if number.isdigit() and dot + suffix == DELTA:
            deltas.append(int(number))
        elif number.isdigit() and dot + suffix == SNAPSHOT:
            snapshots.append(int(number))
    return sorted(deltas), sorted(snapshots)


def write_whole(path: Path, content: Any) -> int:
    data = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)
    return len(data)


def forget_after(state: Path, version: int) -> None:
    """Removes what batches left that were not committed; they are done again, perhaps by another code."""
    for suffix in (DELTA, SNAPSHOT):
        for path in state.glob(f"*/*/*{suffix}"):
            if path.stem.isdigit() and int(path.stem) > version:
                path.unlink(missing_ok=True)
