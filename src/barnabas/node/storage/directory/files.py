"""Files of a log directory: their names, handles that are opened when used and closed when too many, atomic writes."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

fdatasync = getattr(os, "fdatasync", os.fsync)


def offset_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset in a segment file's name, `00000000000000000042.log` -> 42."""
    digits = name[:20]
    return int(digits) if len(name) > 20 and name[20] == "." and digits.isascii() and digits.isdigit() else None


class FileHandles:
    """At most `limit` open files: whoever was not used again since the last round is closed first."""

    def __init__(self, limit: int = 512) -> None:
        self.limit = max(limit, 4)
        self._open: OrderedDict[PooledFile, None] = OrderedDict()  # who is looked at next comes first

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, file: PooledFile) -> None:
        while len(self._open) >= self.limit:
            candidate, _ = self._open.popitem(last=False)
            if candidate.fd < 0:
                continue
            if candidate.used:
                candidate.used = False
                self._open[candidate] = None
            else:
                os.close(candidate.fd)
                candidate.fd = -1
        self._open[file] = None

    def closed(self, file: PooledFile) -> None:
        self._open.pop(file, None)


class PooledFile:
    """A file by its path. `fileno()` opens it if need be, so the number must not be kept across other files' use."""

    __slots__ = ("_handles", "cuts", "directory", "fd", "last_cut", "name", "used")

    def __init__(self, handles: FileHandles, directory: str, name: str) -> None:
        self._handles = handles
        self.directory = directory
        self.name = name
        self.fd = -1
        self.used = False
        # How often the file was cut off, and where the last time: what lies behind a cut may be something else now.
        self.cuts = 0
        self.last_cut = 0

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"

    def fileno(self) -> int:
        if self.fd >= 0:
            self.used = True
        else:
            self._handles.opened(self)
            self.used = False
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self.fd

    def size(self) -> int:
        try:
            return os.fstat(self.fd).st_size if self.fd >= 0 else os.stat(self.path).st_size
        except FileNotFoundError:
            return 0

    def exists(self) -> bool:
        return self.fd >= 0 or os.path.exists(self.path)

    def cut(self, size: int) -> None:
        os.ftruncate(self.fileno(), size)
        self.cuts += 1
        self.last_cut = size

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            self._handles.closed(self)
            os.close(fd)

    def rename(self, name: str) -> None:
        try:
            os.rename(self.path, f"{self.directory}/{name}")
        except FileNotFoundError:
            pass
        self.name = name


class FileRange:
    """A part of a file, read when it is needed: the answer to a client that may take its time.

    No handle is kept for it. The file may have been closed meanwhile, then it is opened for the moment, also if it is
    just given its name as a deleted one. Once it is gone, or cut off before the end of the part, reading fails: another
    file may have its name, and other batches its place.
    """

    __slots__ = ("_cuts", "_file", "_identity", "_size", "_start")

    def __init__(self, file: PooledFile, start: int, end: int) -> None:
        self._file = file
        self._start = start
        self._size = end - start
        self._cuts = file.cuts
        self._identity = _identity(file.fileno())

    def __len__(self) -> int:
        return self._size

    def read(self, offset: int, size: int) -> bytes:
        file = self._file
        if file.cuts != self._cuts and (file.cuts > self._cuts + 1 or file.last_cut < self._start + self._size):
            raise OSError(errno.ESTALE, "the log was truncated meanwhile", file.path)
        if file.fd >= 0:
            return os.pread(file.fd, size, self._start + offset)
        fd = self._open()
        try:
            return os.pread(fd, size, self._start + offset)
        finally:
            os.close(fd)

    def _open(self) -> int:
        path = self._file.path
        for each in (path, path.removesuffix(DELETED_SUFFIX), path):
            try:
                fd = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            if _identity(fd) == self._identity:
                return fd
            os.close(fd)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def fsync_path(path: str) -> None:
    """Also for directories; a file that is gone needs no fsync."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directories(path: str) -> None:
    """The directory and those above it, as far as they are missing; whatever is made stays after a crash."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    if missing:
        os.makedirs(missing[0], exist_ok=True)
        for each in reversed(missing):
            fsync_path(os.path.dirname(each))


def write_atomically(path: str, content: bytes, *, sync: bool = True) -> None:
    """The file has the old content or the new one, whatever happens: written beside, fsynced, renamed."""
    beside = f"{path}.tmp"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_fully(fd, content)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(beside, path)
    if sync:
        fsync_path(os.path.dirname(path))


def write_fully(fd: int, content: bytes | memoryview) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def overwrite(fd: int, content: bytes) -> None:
    """The file has this content. Emptying it first would make ext4 write it to the disk at once."""
    written = 0
    while written < len(content):
        written += os.pwrite(fd, content[written:], written)
    os.ftruncate(fd, len(content))


def rename_all(directory: str, names: Iterable[tuple[str, str]]) -> None:
    """Old names to new ones; a file that is gone needs none."""
    for old, new in names:
        try:
            os.rename(f"{directory}/{old}", f"{directory}/{new}")
        except FileNotFoundError:
            pass


def unlink_all(paths: Iterable[str]) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def remove_directory(path: str) -> None:
    """A partition's directory. Of a link to one, its files and the link: the place is the operator's."""
    if os.path.islink(path):
        for entry in os.scandir(path):
            if entry.is_file(follow_symlinks=False):
                unlink_all([entry.path])
        unlink_all([path])
    else:
        shutil.rmtree(path, ignore_errors=True)


def write_back(fd: int, start: int, size: int, *, wait: bool = False) -> None:
    """The kernel begins to write this part of a file to the disk, and on demand has done so when this returns.

    Nothing is durable by it. But an fsync at the end has little left to do then, and until then the journal of the file
    system, for which whoever appends to another file would have to wait, is left alone.
    """
    if _sync_file_range is None:
        fdatasync(fd)
    elif _sync_file_range(fd, start, size, WAIT_BEFORE | WRITE | WAIT_AFTER if wait else WRITE) != 0:
        number = ctypes.get_errno()
        if number not in NOT_KNOWN_HERE:
            raise OSError(number, os.strerror(number))
        fdatasync(fd)


def _find_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None) if sys.platform == "linux" else None
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


WAIT_BEFORE, WRITE, WAIT_AFTER = 1, 2, 4
NOT_KNOWN_HERE = (errno.ENOSYS, errno.EINVAL, errno.ESPIPE, errno.EOPNOTSUPP)
_sync_file_range = _find_sync_file_range()


def can_sync_file_system() -> bool:
    return sys.platform == "linux"


def sync_file_system(directory: str) -> None:
    """Everything written to the directory's file system reaches the disk, in one call."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), directory)
    finally:
        os.close(fd)
