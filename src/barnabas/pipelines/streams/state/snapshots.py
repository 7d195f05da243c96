"""Snapshots of state on disk: the files of a partition's database, each stored once however many snapshots have it.

Files of tables never change, so a snapshot adds those that are new since the last one. A stored file is named by its
name in the database and its checksum: workers that took a partition over from each other give the same name to
different files. What a snapshot consists of is told by its manifest, the `.snapshot` file of the version.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zlib
from pathlib import Path
from typing import TypedDict

from barnabas.pipelines.streams.errors import StateDamaged
from barnabas.pipelines.streams.state.disk import DiskTables, scratch_directory

FILES = "files"
TABLE_SUFFIX = ".sst"
CHUNK_BYTES = 1 << 20


class StoredFile(TypedDict):
    stored: str
    bytes: int
    checksum: int


class Manifest(TypedDict):
    files: dict[str, StoredFile]  # by their names in the database


def take_snapshot(tables: DiskTables, directory: Path, before: Manifest | None) -> Manifest:
    """Stores in `directory` what the database has now; files that `before` has are there already."""
    (directory / FILES).mkdir(parents=True, exist_ok=True)
    beside = tables.directory.with_name(tables.directory.name + "-snapshot")
    shutil.rmtree(beside, ignore_errors=True)
    tables.snapshot_in(beside)
    known = {} if before is None else before["files"]
    files: dict[str, StoredFile] = {}
    try:
        for path in sorted(beside.iterdir()):
            size = path.stat().st_size
            held = known.get(path.name)
            stays = path.suffix == TABLE_SUFFIX and held is not None and held["bytes"] == size
            if stays and held is not None and (directory / FILES / held["stored"]).exists():
                files[path.name] = held
                continue
            checksum = checksum_of(path)
            stored = f"{path.stem}-{checksum:08x}{path.suffix}"
            place(path, directory / FILES / stored)
            files[path.name] = StoredFile(stored=stored, bytes=size, checksum=checksum)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Manifest(files=files)


def open_snapshot(manifest: Manifest, directory: Path) -> DiskTables:
    """A database of its own with what the snapshot has. Raises StateDamaged, naming the file that is not whole."""
    database = scratch_directory()
    try:
        for name, file in manifest["files"].items():
            source = directory / FILES / file["stored"]
            if not source.exists():
                raise StateDamaged(f"state file {source} is missing")
            if source.stat().st_size != file["bytes"] or checksum_of(source) != file["checksum"]:
                raise StateDamaged(f"state file {source} is damaged: its checksum is not that of its snapshot")
            place(source, database / name, linked=name.endswith(TABLE_SUFFIX))
    except BaseException:
        shutil.rmtree(database, ignore_errors=True)
        raise
    return DiskTables(database)


def remove_unused(directory: Path, manifests: list[Manifest]) -> None:
    used = {file["stored"] for manifest in manifests for file in manifest["files"].values()}
    with contextlib.suppress(FileNotFoundError):
        for path in (directory / FILES).iterdir():
            if path.name not in used:
                path.unlink(missing_ok=True)


def place(source: Path, target: Path, *, linked: bool = True) -> None:
    """Linked where it can be, else copied. What has the name is whole."""
    if target.exists() and target.stat().st_size == source.stat().st_size:
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    if linked:
        try:
            os.link(source, beside)
        except OSError:  # another disk
            shutil.copyfile(source, beside)
    else:
        shutil.copyfile(source, beside)
    beside.replace(target)


def checksum_of(path: Path) -> int:
    found = 0
    with path.open("rb") as content:
        while data := content.read(CHUNK_BYTES):
            found = zlib.crc32(data, found)
    return found
