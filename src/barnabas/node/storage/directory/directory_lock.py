"""`.lock`: one process per log directory. A POSIX record lock, because that is what a JVM takes."""

from __future__ import annotations

import fcntl
import os

LOCK_FILE = ".lock"

# A process's POSIX locks do not exclude the process itself, and closing any handle of the file gives them up.
_held_here: set[str] = set()


class DirectoryLocked(Exception):
    """Somebody else has it."""


class DirectoryLock:
    def __init__(self, directory: str) -> None:
        self._identity = os.path.realpath(directory)
        if self._identity in _held_here:
            raise DirectoryLocked(f"{directory} is in use by this process already")
        self._fd = os.open(f"{directory}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise DirectoryLocked(f"{directory} is in use by another process") from None
        _held_here.add(self._identity)

    def release(self) -> None:
        if self._fd >= 0:
            _held_here.discard(self._identity)
            os.close(self._fd)
            self._fd = -1
