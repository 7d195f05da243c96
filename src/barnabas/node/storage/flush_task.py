"""What has to reach the disk for a log's recovery point to move, gathered on the loop and done anywhere."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from barnabas.node.storage.files import fdatasync, fsync_path, write_atomically


@dataclass(slots=True)
class FlushTask:
    """`fds` are duplicates of open files, so that closing or renaming a file meanwhile harms nobody."""

    end_offset: int
    fds: list[int] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)  # to be written atomically
    paths: list[str] = field(default_factory=list)  # files and then directories to be fsynced by name

    def add_file(self, fd: int) -> None:
        self.fds.append(os.dup(fd))

    def run(self) -> None:
        try:
            for fd in self.fds:
                fdatasync(fd)
            for path, content in self.files:
                write_atomically(path, content)
            for path in self.paths:
                fsync_path(path)
        finally:
            self.discard()

    def run_without_sync(self) -> None:
        """The same, where the caller syncs the whole file system after."""
        try:
            for path, content in self.files:
                write_atomically(path, content, sync=False)
        finally:
            self.discard()

    def discard(self) -> None:
        while self.fds:
            os.close(self.fds.pop())

    @property
    def syncs(self) -> int:
        return len(self.fds) + 2 * len(self.files) + len(self.paths)
