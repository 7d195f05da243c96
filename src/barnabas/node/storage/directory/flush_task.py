"""What has to reach the disk for a log's recovery point to move, gathered on the loop and done anywhere."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from barnabas.node.storage.directory.files import fdatasync, fsync_path, write_atomically


@dataclass(slots=True, eq=False)
class FlushTask:
    """`fds` are duplicates of open files, so that closing or renaming a file meanwhile harms nobody."""

    end_offset: int
    segments: int = 0
    is_part: bool = False  # there is more to be flushed than it takes along
    fds: list[int] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)  # to be written atomically
    paths: list[str] = field(default_factory=list)  # files and then directories to be fsynced by name

    def add_file(self, fd: int) -> None:
        self.fds.append(os.dup(fd))

    def run(self) -> None:
        try:
            for fd in self.fds:
                fdatasync(fd)
            self.write_files()
            for path in self.paths:
                fsync_path(path)
        finally:
            self.discard()

    def write_files(self, *, sync: bool = True) -> None:
        for path, content in self.files:
            try:
                write_atomically(path, content, sync=sync)
            except FileNotFoundError:
                pass  # the partition was deleted meanwhile

    def discard(self) -> None:
        while self.fds:
            os.close(self.fds.pop())
