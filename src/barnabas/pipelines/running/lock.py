"""One run of a name at a time. A lock on a file says whether a pipeline runs, not the number of a process: the kernel
takes it back when its holders are gone, however they went. The driver inherits it, so that a pipeline whose supervisor
was killed counts as running until its driver has ended too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from barnabas.pipelines.running.place import Place

LOOK_S = 0.05
PATIENCE_S = 1.0  # others look at the lock for a moment
ORPHAN_PATIENCE_S = 45.0  # the driver of a run that was killed stops by itself


class RunLock:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def take(cls, place: Place) -> RunLock | None:
        """None if the pipeline runs. Waits for a driver whose supervisor is gone."""
        place.state.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        began = time.monotonic()
        while not _lock(descriptor, fcntl.LOCK_EX):
            waited_s = time.monotonic() - began
            if waited_s > (PATIENCE_S if _is_alive(holder(place)) else ORPHAN_PATIENCE_S):
                os.close(descriptor)
                return None
            time.sleep(LOOK_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)


def holder(place: Place) -> int | None:
    """The process that runs the pipeline; of use only while the lock is held."""
    with contextlib.suppress(OSError, ValueError):
        return int(place.lock_file.read_text())
    return None


def is_running(place: Place) -> bool:
    try:
        descriptor = os.open(place.lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return True  # it has the lock and has not written yet who it is
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
