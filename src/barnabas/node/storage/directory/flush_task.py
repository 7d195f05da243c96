"""What has to reach the disk for a log's recovery point to move, gathered on the loop and done anywhere."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from barnabas.node.storage.directory.files import PooledFile, fdatasync, fsync_path, write_atomically


@dataclass(slots=True, eq=False)
class FlushTask:
    """`fds` are duplicates of open files, so that closing or renaming a file meanwhile harms nobody.

    Files that are not open are opened by whoever runs the task, by their names in `directory_fd`: a directory that
    other files are being removed from is locked, and the loop would wait for it. A name that is gone by then belongs to
    a deleted segment, or to a compacted one, which was synced before it got its final name.
    """

    end_offset: int
    segments: int = 0
    is_part: bool = False  # there is more to be flushed than it takes along
    fds: list[int] = field(default_factory=list)
    directory_fd: int = -1
    names: list[str] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)  # to be written atomically
    paths: list[str] = field(default_factory=list)  # files and then directories to be fsynced by name

    def add_file(self, file: PooledFile) -> None:
        if file.fd >= 0:
            self.fds.append(os.dup(file.fd))
            return
        if self.directory_fd < 0:
            self.directory_fd = os.open(file.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.names.append(file.name)

    def run(self) -> None:
        try:
            for fd in self.fds:
                fdatasync(fd)
            for name in self.names:
                self._sync_name(name)
            self.write_files()
            for path in self.paths:
                fsync_path(path)
        finally:
            self.discard()

    def _sync_name(self, name: str) -> None:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.directory_fd)
        except FileNotFoundError:
            return
        try:
            fdatasync(fd)
        finally:
            os.close(fd)

    def write_files(self, *, sync: bool = True) -> None:
        for path, content in self.files:
            try:
                write_atomically(path, content, sync=sync)
            except FileNotFoundError:
                pass  # the partition was deleted meanwhile

    def discard(self) -> None:
        while self.fds:
            os.close(self.fds.pop())
        if self.directory_fd >= 0:
            os.close(self.directory_fd)
            self.directory_fd = -1
