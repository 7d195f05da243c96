"""The calls by which code changes files, caught: the real one is made, and the model of the disk hears of it.

Only paths below the simulated root are looked at. Every change counts as one operation; before it happens, a crash or a
failure may come in its place. What escapes us (a call that is not caught) shows in `SimulatedTree.check_against_files`.
"""

from __future__ import annotations

import builtins
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace, TracebackType
from typing import Any, Self

from barnabas.node.storage.cleaning import output
from barnabas.node.storage.directory import directory_lock, files, flush_task, log_dir
from tests.support.simulated_disk import Crash, Cut, Node, SimulatedDirectory, SimulatedFile, SimulatedTree, Write

OS_CALLS = ("open", "close", "dup", "write", "pwrite", "pwritev", "ftruncate", "rename", "unlink", "mkdir", "rmdir")
real = SimpleNamespace(
    **{name: getattr(os, name) for name in (*OS_CALLS, "fsync", "listdir")},
    open_file=builtins.open,
    sync_file_system=files.sync_file_system,
)
SYNCS = frozenset({"fsync", "syncfs"})


class SimulatedDisk:
    """The files below `root` during one life: until the crash, or the end."""

    def __init__(
        self, root: Path, random: Random, *, crash_after: int, fail_at: int = -1, only_syncs_fail: bool = False
    ) -> None:
        self.root = str(root)
        self.tree = SimulatedTree(root)
        self.operations = 0
        self.crashed = False
        self.failed: OSError | None = None
        # Called before each operation: threads take turns there.
        self.on_operation: Callable[[], None] = lambda: None
        self.history: list[str] = []
        self._random = random
        self._crash_after = crash_after
        self._fail_at = fail_at
        self._only_syncs_fail = only_syncs_fail
        self._nodes: dict[int, Node] = {}

    # -- what happens

    def operation(self, what: str, path: str) -> None:
        if not self.crashed:
            self.on_operation()
        if not self.crashed and self.operations >= self._crash_after:
            self.crashed = True
        if self.crashed:
            raise Crash
        self.operations += 1
        self.history.append(f"{self.operations:4} {what:9} {path.removeprefix(self.root)}")
        if self._only_syncs_fail and self.operations == self._fail_at and what not in SYNCS:
            self._fail_at += 1
        if self.operations == self._fail_at:
            number = errno.EIO if what in SYNCS else self._random.choice((errno.EIO, errno.ENOSPC))
            self.failed = OSError(number, os.strerror(number), path)
            self.history.append(f"     fails    {self.failed}")
            raise self.failed

    def pull_the_plug(self) -> None:
        self.crashed = True

    def after_crash(self, target: Path) -> None:
        """Writes what is left on the disk into a new directory."""
        self.tree.check_against_files()
        target.mkdir()
        self.tree.after_crash(self._random, target)

    # -- who is watched

    @contextmanager
    def installed(self) -> Iterator[Self]:
        replaced: list[tuple[Any, str, Any]] = [
            *((os, name, getattr(self, f"_{name}")) for name in OS_CALLS),
            (os, "replace", self._rename),
            (os, "fsync", self._fsync),
            (os, "listdir", lambda path=".": sorted(real.listdir(path))),
            (os, "urandom", self._random.randbytes),
            (builtins, "open", self._open_file),
            (shutil, "rmtree", self._rmtree),
            *((module, "fdatasync", self._fsync) for module in (files, flush_task, output)),
            *((module, "sync_file_system", self._sync_file_system) for module in (files, log_dir)),
        ]
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
        for owner, name, replacement in replaced:
            setattr(owner, name, replacement)
        try:
            yield self
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)
            self._let_go()

    def _let_go(self) -> None:
        """A process that is gone holds neither files nor locks."""
        for fd in self._nodes:
            real.close(fd)
        self._nodes.clear()
        directory_lock._held_here -= {each for each in directory_lock._held_here if each.startswith(self.root + "/")}

    def _ours(self, path: Any) -> str | None:
        if isinstance(path, int):
            return None
        absolute = os.path.abspath(os.fsdecode(path))
        return absolute if absolute.startswith(self.root + "/") or absolute == self.root else None

    def _file(self, fd: int) -> SimulatedFile | None:
        node = self._nodes.get(fd)
        return node if isinstance(node, SimulatedFile) else None

    # -- the calls

    def _open_node(self, path: str, flags: int) -> None:
        node = self.tree.find(path)
        if node is None and flags & os.O_CREAT:
            self.operation("create", path)
            self.tree.add(path, SimulatedFile())
        elif isinstance(node, SimulatedFile) and flags & os.O_TRUNC and node.current:
            self.operation("truncate", path)
            node.change(Cut(0))

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd in self._nodes:
            path, dir_fd = f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{path}", None
        absolute = self._ours(path) if dir_fd is None else None
        if absolute is None:
            fd: int = real.open(path, flags, mode, dir_fd=dir_fd)
            return fd
        if self.crashed:
            raise Crash
        if flags & os.O_CREAT:
            os.stat(os.path.dirname(absolute))
            self._open_node(absolute, flags)
        fd = real.open(path, flags, mode)
        node = self.tree.find(absolute)
        assert node is not None, f"{absolute} came into being unseen"
        self._nodes[fd] = node
        return fd

    def _close(self, fd: int) -> None:
        if self.crashed and fd in self._nodes:
            return
        self._nodes.pop(fd, None)
        real.close(fd)

    def _dup(self, fd: int) -> int:
        copy: int = real.dup(fd)
        if fd in self._nodes:
            self._nodes[copy] = self._nodes[fd]
        return copy

    def _write(self, fd: int, data: Any) -> int:
        file = self._file(fd)
        return real.write(fd, data) if file is None else self._put(fd, file, [data], os.lseek(fd, 0, os.SEEK_CUR))

    def _pwrite(self, fd: int, data: Any, position: int) -> int:
        file = self._file(fd)
        return real.pwrite(fd, data, position) if file is None else self._put(fd, file, [data], position)

    def _pwritev(self, fd: int, parts: Iterable[Any], position: int) -> int:
        file = self._file(fd)
        return real.pwritev(fd, parts, position) if file is None else self._put(fd, file, parts, position)

    def _put(self, fd: int, file: SimulatedFile, parts: Iterable[Any], position: int) -> int:
        data = b"".join(bytes(part) for part in parts)
        try:
            self.operation("write", f"{self._name(file)} {len(data)} at {position}")
        except OSError:
            taken = self._random.randrange(len(data) + 1)
            if not taken:
                raise
            data = data[:taken]  # a disk that is full takes what it can
        file.change(Write(position, data))
        real.pwrite(fd, data, position)
        os.lseek(fd, position + len(data), os.SEEK_SET)
        return len(data)

    def _ftruncate(self, fd: int, size: int) -> None:
        file = self._file(fd)
        if file is not None:
            self.operation("truncate", f"{self._name(file)} to {size}")
            file.change(Cut(size))
        real.ftruncate(fd, size)

    def _rename(self, source: Any, target: Any) -> None:
        old, new = self._ours(source), self._ours(target)
        if old is None or new is None:
            real.rename(source, target)
            return
        os.lstat(old)
        self.operation("rename", f"{old} -> {new.rpartition('/')[2]}")
        real.rename(old, new)
        self.tree.rename(old, new)

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("unlink", real.unlink, path, dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("rmdir", real.rmdir, path, dir_fd)

    def _remove(self, what: str, remove: Callable[..., None], path: Any, dir_fd: int | None) -> None:
        absolute = self._ours(path) if dir_fd is None else None
        if absolute is None:
            remove(path, dir_fd=dir_fd)
            return
        os.lstat(absolute)
        self.operation(what, absolute)
        remove(absolute)
        self.tree.remove(absolute)

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        absolute = self._ours(path) if dir_fd is None else None
        if absolute is None or os.path.lexists(absolute):
            real.mkdir(path, mode, dir_fd=dir_fd)
            return
        self.operation("mkdir", absolute)
        real.mkdir(absolute, mode)
        self.tree.add(absolute, SimulatedDirectory())

    def _fsync(self, fd: int) -> None:
        node = self._nodes.get(fd)
        if node is None:
            real.fsync(fd)
            return
        try:
            self.operation("fsync", self._name(node))
        except OSError:
            if isinstance(node, SimulatedFile):
                node.sync_failed()
            raise
        if isinstance(node, SimulatedFile):
            self.tree.file_synced(node)
        else:
            self.tree.directory_synced(node)

    def _sync_file_system(self, directory: str) -> None:
        if self._ours(directory) is None:
            real.sync_file_system(directory)
            return
        self.operation("syncfs", directory)
        self.tree.all_synced()

    def _rmtree(self, path: str, ignore_errors: bool = False) -> None:
        try:
            for name in os.listdir(path):
                below = f"{path}/{name}"
                if os.path.isdir(below):
                    self._rmtree(below, ignore_errors)
                else:
                    os.unlink(below)
            os.rmdir(path)
        except OSError:
            if not ignore_errors:
                raise

    def _open_file(self, file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if self._ours(file) is None or not frozenset("wax+") & set(mode):
            return real.open_file(file, mode, *arguments, **options)
        assert mode == "wb", f"a file opened with mode {mode!r} is not simulated"
        return WrittenFile(file)

    def _name(self, node: Node) -> str:
        """Its name now, for the history."""
        stack: list[tuple[str, SimulatedDirectory]] = [("", self.tree.top)]
        while stack:
            above, directory = stack.pop()
            if directory is node:
                return above or "/"
            for name, below in directory.current.items():
                if below is node:
                    return f"{above}/{name}"
                if isinstance(below, SimulatedDirectory):
                    stack.append((f"{above}/{name}", below))
        return "a file without a name"


class WrittenFile:
    """What `open(path, "wb")` gives: nothing is written before `flush` or the end."""

    def __init__(self, path: Any) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._waiting = bytearray()

    def write(self, data: Any) -> int:
        self._waiting += data
        return len(data)

    def writelines(self, parts: Iterable[Any]) -> None:
        for part in parts:
            self.write(part)

    def flush(self) -> None:
        if self._waiting:
            files.write_fully(self._fd, bytes(self._waiting))
            self._waiting.clear()

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        try:
            self.flush()
        finally:
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
