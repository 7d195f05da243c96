"""Snapshots of state on disk: the files of a partition's database, each stored once however many snapshots have it.

Files of tables never change, so a snapshot adds those that are new since the last one. A stored file is named by its
name in the database and its checksum: workers that took a partition over from each other give the same name to
different files. What a snapshot consists of is told by its manifest, the `.snapshot` file of the version.
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import TypedDict

from barnabas.pipelines.streams.errors import StateDamaged
from barnabas.pipelines.streams.state.disk import DiskTables, scratch_directory
from barnabas.pipelines.streams.state.storage import Directory

FILES = "files"
TABLE_SUFFIX = ".sst"
CHUNK_BYTES = 1 << 20


class StoredFile(TypedDict):
    stored: str
    bytes: int
    checksum: int


class Manifest(TypedDict):
    files: dict[str, StoredFile]  # by their names in the database


def take_snapshot(tables: DiskTables, directory: Directory, before: Manifest | None) -> Manifest:
    """Stores in `directory` what the database has now; files that `before` has are there already."""
    beside = tables.directory.with_name(tables.directory.name + "-snapshot")
    shutil.rmtree(beside, ignore_errors=True)
    tables.snapshot_in(beside)
    known = {} if before is None else before["files"]
    stored_files = directory.under(FILES)
    there = set(stored_files.names())
    files: dict[str, StoredFile] = {}
    try:
        for path in sorted(beside.iterdir()):
            size = path.stat().st_size
            held = known.get(path.name)
            stays = path.suffix == TABLE_SUFFIX and held is not None and held["bytes"] == size
            if stays and held is not None and held["stored"] in there:
                files[path.name] = held
                continue
            checksum = checksum_of(path)
            stored = f"{path.stem}-{checksum:08x}{path.suffix}"
            stored_files.store(path, stored)
            files[path.name] = StoredFile(stored=stored, bytes=size, checksum=checksum)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Manifest(files=files)


def open_snapshot(manifest: Manifest, directory: Directory) -> DiskTables:
    """A database of its own with what the snapshot has. Raises StateDamaged, naming the file that is not whole."""
    database = scratch_directory()
    stored_files = directory.under(FILES)
    try:
        for name, file in manifest["files"].items():
            target, place = database / name, stored_files.place_of(file["stored"])
            try:
                stored_files.fetch(file["stored"], target, linked=name.endswith(TABLE_SUFFIX))
            except FileNotFoundError:
                raise StateDamaged(f"state file {place} is missing") from None
            if target.stat().st_size != file["bytes"] or checksum_of(target) != file["checksum"]:
                raise StateDamaged(f"state file {place} is damaged: its checksum is not that of its snapshot")
    except BaseException:
        shutil.rmtree(database, ignore_errors=True)
        raise
    return DiskTables(database)


def remove_unused(directory: Directory, manifests: list[Manifest]) -> None:
    used = {file["stored"] for manifest in manifests for file in manifest["files"].values()}
    stored_files = directory.under(FILES)
    for name in stored_files.names():
        if name not in used:
            stored_files.remove(name)


def checksum_of(path: Path) -> int:
    found = 0
    with path.open("rb") as content:
        while data := content.read(CHUNK_BYTES):
            found = zlib.crc32(data, found)
    return found
