"""Whether a topology runs on a checkpoint.

On a disk the process that plans its batches holds a lock on a file, shared by as many as there are; the kernel takes it
back however the process ends. On other storages there are no locks: a file tells who began, and stays if the process
was killed, so whoever wants the checkpoint for himself has to know better (`is_stopped`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator

from barnabas.pipelines.streams.checkpoint import NOTES, state_of
from barnabas.pipelines.streams.errors import CheckpointError
from barnabas.pipelines.streams.state.storage import Directory, LocalDirectory

FILE = "running"
PATIENCE_S = 5.0
ENDING_S = 2.0  # the process that planned batches ends a moment after its query
LOOK_S = 0.05


class InUse:
    """Taken by a topology that runs with the state at an address."""

    def __init__(self, checkpoint: Directory, state: str) -> None:
        self._checkpoint = checkpoint
        self._descriptor: int | None = None
        if isinstance(checkpoint, LocalDirectory):
            self._descriptor = _open(checkpoint)
            if not _locked(self._descriptor, fcntl.LOCK_SH, PATIENCE_S):
                raise CheckpointError(f"the state in {checkpoint.address} is being moved to other partitions")
        else:
            told = {"host": socket.gethostname(), "process": os.getpid(), "since_ms": time.time_ns() // 1_000_000}
            checkpoint.under(NOTES).write(FILE, json.dumps(told).encode())
        if state_of(checkpoint).address != state:
            self.release()
            raise CheckpointError(f"the state in {checkpoint.address} was moved while the topology started")

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        elif not isinstance(self._checkpoint, LocalDirectory):
            self._checkpoint.under(NOTES).remove(FILE)


@contextlib.contextmanager
def alone(checkpoint: Directory, *, is_stopped: bool = False) -> Iterator[None]:
    """While this lasts, no topology runs on the checkpoint. Raises CheckpointError if one does."""
    if not isinstance(checkpoint, LocalDirectory):
        with contextlib.suppress(FileNotFoundError):
            told = json.loads(checkpoint.under(NOTES).read(FILE))
            if not is_stopped:
                raise CheckpointError(
                    f"the topology of {checkpoint.address} was started by process {told['process']} of {told['host']}"
                    " and has not told its end: stop it, or say --stopped if it was killed"
                )
        yield
        return
    descriptor = _open(checkpoint)
    try:
        if not _locked(descriptor, fcntl.LOCK_EX, ENDING_S):
            raise CheckpointError(f"the topology of {checkpoint.address} is running: stop it first")
        yield
    finally:
        os.close(descriptor)


def _open(checkpoint: LocalDirectory) -> int:
    path = checkpoint.path / NOTES / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _locked(descriptor: int, kind: int, patience_s: float) -> bool:
    ends = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= ends:
                return False
            time.sleep(LOOK_S)
