"""Where a checkpoint lies: in a directory of a disk, or on a storage that Spark's checkpoints can be on.

    Storage           the settings that Spark was given, as `fs.s3a.endpoint`; `at(address)` gives a directory
    Directory         what versions, snapshots and notes need of either kind
    LocalDirectory    a file is written beside and renamed; `settle` fsyncs what was written, in one group
    RemoteDirectory   through pyarrow.fs: `s3a://` and its like, HDFS (`remote`)

A name stands for a whole file. Object stores have no rename and need none: an object is there when its last byte is.
Nothing reads a version before Spark has noted its batch, and the list of a snapshot is written after its files, so what
a broken upload leaves is written anew or removed.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import functools
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.pipelines.streams.errors import StateUnreachable

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
FSYNCS_AT_ONCE = 8
_unsettled: dict[Path, None] = {}  # files and directories of this process that are not fsynced yet, in their order


class Directory(abc.ABC):
    address: str

    @abc.abstractmethod
    def under(self, *names: str) -> Directory: ...

    @abc.abstractmethod
    def names(self) -> list[str]:
        """What is in it; nothing if it is not there."""

    @abc.abstractmethod
    def walk(self) -> list[str]:
        """All files below it, as `0/3/12.delta`."""

    @abc.abstractmethod
    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""

    @abc.abstractmethod
    def write(self, name: str, *pieces: bytes) -> None: ...

    @abc.abstractmethod
    def remove(self, name: str) -> None:
        """If it is there."""

    @abc.abstractmethod
    def remove_all(self) -> None:
        """The directory and all that is below it."""

    @abc.abstractmethod
    def size(self, name: str) -> int | None:
        """None if it is not there."""

    @abc.abstractmethod
    def store(self, source: Path, name: str) -> None:
        """A file of this machine, which does not change any more. What has the name and the size is taken for it."""

    @abc.abstractmethod
    def fetch(self, name: str, target: Path, *, linked: bool = False) -> None:
        """A copy on this machine, or a link to a file that nobody changes. Raises FileNotFoundError."""

    def has(self, name: str) -> bool:
        return self.size(name) is not None

    def place_of(self, name: str) -> str:
        return f"{self.address}/{name}"


class LocalDirectory(Directory):
    def __init__(self, path: Path, *, synced: bool = True) -> None:
        self.path = path
        self.address = str(path)
        self.synced = synced

    def under(self, *names: str) -> LocalDirectory:
        return LocalDirectory(self.path.joinpath(*names), synced=self.synced)

    def names(self) -> list[str]:
        try:
            return [one.name for one in self.path.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise unreadable(self.address, error) from error

    def walk(self) -> list[str]:
        return [str(one.relative_to(self.path)) for one in self.path.rglob("*") if one.is_file()]

    def read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unreadable(self.place_of(name), error) from error

    def write(self, name: str, *pieces: bytes) -> None:
        target = self.path / name
        with self._beside(target) as beside, beside.open("wb") as written:
            written.writelines(pieces)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def remove_all(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def size(self, name: str) -> int | None:
        try:
            return (self.path / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def store(self, source: Path, name: str) -> None:
        if self.size(name) == source.stat().st_size:
            return
        with self._beside(self.path / name) as beside:
            link_or_copy(source, beside)

    def fetch(self, name: str, target: Path, *, linked: bool = False) -> None:
        if linked:
            link_or_copy(self.path / name, target)
        else:
            shutil.copyfile(self.path / name, target)

    @contextlib.contextmanager
    def _beside(self, target: Path) -> Iterator[Path]:
        """A name to write under; renamed when that is done, and removed if it fails."""
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            self._make(target.parent)
            beside.unlink(missing_ok=True)
            yield beside
            beside.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise unwritable(str(target), error) from error
        if self.synced:
            _unsettled[target] = None
            _unsettled[target.parent] = None

    def _make(self, path: Path) -> None:
        if path.is_dir():
            return
        self._make(path.parent)
        path.mkdir(exist_ok=True)
        if self.synced:
            _unsettled[path.parent] = None


def settle(*more: Path) -> None:
    """Fsyncs what this process has written since the last time, and `more`: first all files, then each directory once.
    Those that are asked for at the same time share a write of the file system's journal."""
    for path in more:
        _unsettled[path] = None
    found = list(_unsettled)
    _unsettled.clear()
    for group in ([one for one in found if not one.is_dir()], [one for one in found if one.is_dir()]):
        if len(group) > 1:
            list(_fsyncing(os.getpid()).map(_fsync, group))
        elif group:
            _fsync(group[0])


@functools.lru_cache(maxsize=1)
def _fsyncing(process: int) -> ThreadPoolExecutor:
    """Threads do not live on in a process that is forked."""
    return ThreadPoolExecutor(FSYNCS_AT_ONCE, thread_name_prefix="barnabas-fsync")


def _fsync(path: Path) -> None:
    """What is gone was removed because nobody needs it. A failed fsync is not tried again: the batch is."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise unwritable(str(path), error) from error
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Storage:
    """What directories are reached with. `synced` is false where files are thrown away with the process."""

    settings: Mapping[str, str] = field(default_factory=dict)
    synced: bool = True

    def at(self, address: str | Path) -> Directory:
        text = local_path(str(address))
        if text is not None:
            return LocalDirectory(Path(text), synced=self.synced)
        from barnabas.pipelines.streams.state.remote import remote_directory

        return remote_directory(str(address), self.settings)


def local_path(address: str) -> str | None:
    """None if it is no path of this machine. Spark knows local files by `file:` too."""
    if address.startswith("file:"):
        return "/" + address.removeprefix("file:").lstrip("/")
    return None if ADDRESS.match(address) else str(Path(address).absolute())


def link_or_copy(source: Path, target: Path) -> None:
    if not source.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copyfile(source, target)


def unreadable(place: str, error: OSError) -> StateUnreachable:
    return StateUnreachable(f"state can't be read from {place}: {error.strerror or error}")


def unwritable(place: str, error: OSError) -> StateUnreachable:
    reason = error.strerror or str(error)
    return StateUnreachable(f"state can't be written to {place}: {reason}; the batch is done again, nothing is lost")
