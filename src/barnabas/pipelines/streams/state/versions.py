"""The state of one partition on disk: a version per batch that touched it.

`12.delta` holds what batch 11 changed, `12.snapshot` everything; state before batch N is the newest version up to N,
read from the newest snapshot up to N and the deltas behind it. Nothing is ever changed in place: a batch that is done
again reads what it read the first time, and writes the same version anew. What has a name is whole (`storage`);
versions of batches that never came to be are removed when a query starts. Who holds a version in memory only reads the
deltas behind it; versions that another worker wrote come in that way.

A snapshot is written when the deltas since the last one hold as many bytes as it, so all writing is in proportion to
what changes. Files before the last but one snapshot are removed. Where stores would take more memory than
`cache_bytes`, they go to a database on the worker's disk (`disk`), and a snapshot is the list of its files
(`snapshots`). Every file has a checksum; where a snapshot is damaged, the one before it and the deltas stand in.
"""

from __future__ import annotations

import logging
import pickle
import zlib
from pathlib import Path
from typing import Any

from barnabas.pipelines.streams.errors import StateDamaged
from barnabas.pipelines.streams.state.disk import DiskTables, estimated_bytes, scratch_directory
from barnabas.pipelines.streams.state.snapshots import Manifest, open_snapshot, remove_unused, take_snapshot
from barnabas.pipelines.streams.state.storage import Directory, LocalDirectory
from barnabas.pipelines.streams.state.stores import Changes, Store

DELTA, SNAPSHOT = ".delta", ".snapshot"
SNAPSHOT_BYTES_MIN = 1 << 18
DISK_SNAPSHOT_BYTES = 64 << 20  # of deltas, until a database on disk has a new snapshot
DELTAS_MAX = 64
NONE = -1  # the version of nothing; 0 is what was there before the first batch
CACHE_BYTES = 256 << 20
SIZE_LOOK_DELTAS = 4  # so often the size of stores is looked at
MARK = b"BST1"  # what files with a checksum begin with; without it they are of an older edition
MANIFEST = 0  # instead of the names of stores
log = logging.getLogger("barnabas.streams")


class PartitionState:
    """The stores of one partition at one version. They take about `cache_bytes` of memory, and what one batch needs."""

    def __init__(self, directory: Directory | Path, cache_bytes: int = CACHE_BYTES) -> None:
        self.directory = LocalDirectory(directory) if isinstance(directory, Path) else directory
        self.cache_bytes = cache_bytes
        self.version = NONE
        self.stores: dict[str, Store] = {}
        self.tables: DiskTables | None = None  # where state is on disk
        self._manifest: Manifest | None = None
        self._delta_bytes = 0
        self._deltas = 0
        self._snapshot_bytes = 0

    def store(self, name: str) -> Store:
        found = self.stores.get(name)
        if found is None:
            found = self.stores[name] = Store(None if self.tables is None else self.tables.table(name))
        return found

    def load(self, version: int) -> None:
        """The state before batch `version`: what is newer in files is a batch that is being done again."""
        if self.version == version:
            return  # as this worker left it
        deltas, snapshots = versions_in(self.directory)
        newest = max((one for one in (*deltas, *snapshots) if one <= version), default=NONE)
        if newest == self.version:
            return
        snapshots = [one for one in snapshots if one <= newest]
        behind = [one for one in deltas if self.version < one <= newest]
        if self.version > newest or (self.version == NONE and snapshots) or not self._follow(behind):
            base = self._start_at_newest(snapshots, deltas)
            self._apply([one for one in deltas if base < one <= newest])
        self._spill_if_large()

    def _follow(self, behind: list[int]) -> bool:
        """Whether the deltas go on where this worker is, and are whole; else a snapshot may stand in for them."""
        try:
            if not behind or self._read(behind[0])[0] != self.version:
                return False
            self._apply(behind)
        except StateDamaged as damage:
            log.error("%s; state is rebuilt from the last snapshot", damage)
            return False
        return True

    def _apply(self, deltas: list[int]) -> None:
        for one in deltas:
            before, changes, size = self._read(one)
            if before != self.version:
                missing = self.directory.place_of(f"{before}{DELTA}")
                raise StateDamaged(f"state file {missing} is missing: the state before it is version {self.version}")
            for name, changed in changes.items():
                self.store(name).apply(changed)
            self.flush()
            self.version = one
            self._delta_bytes += size
            self._deltas += 1

    def _start_at_newest(self, snapshots: list[int], deltas: list[int]) -> int:
        """The newest snapshot that is whole, or nothing if all deltas are still there."""
        damaged: StateDamaged | None = None
        for base in sorted(snapshots, reverse=True):
            try:
                self._start_at(base)
                return base
            except StateDamaged as damage:
                log.error("%s; state is rebuilt from the version before it", damage)
                damaged = damaged or damage
        self._start_at(NONE)
        if damaged is not None and (not deltas or self._read(deltas[0])[0] != NONE):
            raise damaged
        return NONE

    def _read(self, version: int) -> tuple[int, dict[str, Changes], int]:
        content, size = read_whole(self.directory, f"{version}{DELTA}")
        before, changes = content
        return before, changes, size

    def _start_at(self, base: int) -> None:
        self.close()
        self._delta_bytes = self._deltas = self._snapshot_bytes = 0
        if base != NONE:
            content, size = read_whole(self.directory, f"{base}{SNAPSHOT}")
            if MANIFEST in content:
                manifest: Manifest = content[MANIFEST]
                self.tables, self._manifest = open_snapshot(manifest, self.directory), manifest
            else:
                self.stores = {name: Store(found) for name, found in content.items()}
                self._snapshot_bytes = size
        self.version = base

    def close(self) -> None:
        self.stores, self.version, self._manifest = {}, NONE, None
        if self.tables is not None:
            self.tables.close()
            self.tables = None

    def save(self, version: int) -> None:
        """What the batch before `version` has left."""
        changes = {name: store.take_changes() for name, store in self.stores.items() if store.changed}
        if not changes:
            return
        self._delta_bytes += write_whole(self.directory, f"{version}{DELTA}", (self.version, changes))
        self._deltas += 1
        self.version = version
        if self.tables is not None:
            self.flush()
        elif self._is_time_to_look() and self._spill_if_large():
            self.write_snapshot(version)
            return
        enough = DISK_SNAPSHOT_BYTES if self.tables is not None else max(self._snapshot_bytes, SNAPSHOT_BYTES_MIN)
        if self._delta_bytes > enough or self._deltas >= DELTAS_MAX:
            self.write_snapshot(version)

    def flush(self) -> None:
        """What was changed, to the database: its next version is written later, but the cache keeps its size."""
        if self.tables is not None:
            self.tables.write()
            self.tables.trim(self.cache_bytes)

    def make_room(self) -> None:
        """Of entries that were put without a batch: what is more than the cache may hold goes to disk."""
        for store in self.stores.values():
            store.changed = set()
        if self.tables is None:
            self._spill_if_large()
        else:
            self.flush()

    def _is_time_to_look(self) -> bool:
        return self._deltas % SIZE_LOOK_DELTAS == 0 or self._delta_bytes > SNAPSHOT_BYTES_MIN

    def _spill_if_large(self) -> bool:
        if self.tables is not None:
            return False
        data = [store.data for store in self.stores.values() if isinstance(store.data, dict)]
        if sum(map(estimated_bytes, data)) <= self.cache_bytes:
            return False
        self.tables = DiskTables(scratch_directory())
        for name, store in self.stores.items():
            table = self.tables.table(name)
            table.update(store.data)
            store.data, store.index = table, None
        self.tables.write()
        self.tables.trim(self.cache_bytes)
        return True

    def write_snapshot(self, version: int) -> None:
        if self.tables is not None:
            self._manifest = take_snapshot(self.tables, self.directory, self._manifest)
            content: dict[Any, Any] = {MANIFEST: self._manifest}
        else:
            content = {name: store.data for name, store in self.stores.items()}
        self._snapshot_bytes = write_whole(self.directory, f"{version}{SNAPSHOT}", content)
        self._delta_bytes = self._deltas = 0
        self.version = version
        self._remove_old(version)

    def _remove_old(self, version: int) -> None:
        deltas, snapshots = versions_in(self.directory)
        kept = max((one for one in snapshots if one < version), default=NONE)
        for suffix, found in ((DELTA, deltas), (SNAPSHOT, snapshots)):
            for one in found:
                if one < kept or (one == kept and suffix == DELTA):
                    self.directory.remove(f"{one}{suffix}")
        if self._manifest is not None:
            left = [read_whole(self.directory, f"{one}{SNAPSHOT}")[0] for one in snapshots if one >= kept]
            remove_unused(self.directory, [one[MANIFEST] for one in left if MANIFEST in one])


def versions_in(directory: Directory | Path) -> tuple[list[int], list[int]]:
    deltas, snapshots = [], []
    found = LocalDirectory(directory) if isinstance(directory, Path) else directory
    for name in found.names():
        number, dot, suffix = name.partition(".")
        if number.isdigit() and dot + suffix == DELTA:
            deltas.append(int(number))
        elif number.isdigit() and dot + suffix == SNAPSHOT:
            snapshots.append(int(number))
    return sorted(deltas), sorted(snapshots)


def write_whole(directory: Directory, name: str, content: Any) -> int:
    data = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    write_bytes(directory, name, data)
    return len(data)


def write_bytes(directory: Directory, name: str, data: bytes) -> None:
    directory.write(name, MARK + zlib.crc32(data).to_bytes(4, "big"), data)


def read_whole(directory: Directory, name: str) -> tuple[Any, int]:
    """The content, and how many bytes it has. Raises StateDamaged, naming the file, if it is not as it was written."""
    place = directory.place_of(name)
    try:
        data = directory.read(name)
    except FileNotFoundError:
        raise StateDamaged(f"state file {place} is missing") from None
    if data.startswith(MARK):
        head, data = data[:8], data[8:]
        if int.from_bytes(head[4:], "big") != zlib.crc32(data):
            raise StateDamaged(f"state file {place} is damaged: its checksum is not that of its content")
    try:
        return pickle.loads(data), len(data)
    except (pickle.UnpicklingError, EOFError, ValueError) as error:
        raise StateDamaged(f"state file {place} is damaged: {error}") from error


def forget_after(state: Directory, version: int) -> None:
    """Removes what batches left that were not committed; they are done again, perhaps by another code."""
    for path in state.walk():
        name = path.rpartition("/")[2]
        number, _, suffix = name.partition(".")
        if number.isdigit() and f".{suffix}" in (DELTA, SNAPSHOT) and int(number) > version:
            state.remove(path)
