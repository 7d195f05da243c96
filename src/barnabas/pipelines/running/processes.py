"""What is left of a driver: its JVM, and the Python workers of that. They share its session, whatever their groups."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LEAVE_S = 5.0  # the JVM ends by itself when its driver has
LOOK_S = 0.05


def end_session(session: int, leader: subprocess.Popen[bytes]) -> None:
    """Ends every process of the session: the leader at once, others if they do not go by themselves."""
    if leader.poll() is None:
        leader.kill()
        leader.wait()
    deadline = time.monotonic() + (LEAVE_S if leader.returncode == 0 else 0.0)
    while left := members(session):
        if time.monotonic() >= deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_S)


def members(session: int) -> list[int]:
    """Those that live; the dead that nobody has waited for do not count."""
    if sys.platform == "linux":
        return [pid for pid in _pids() if _state_and_session(pid) == session]
    listed = subprocess.run(["ps", "-A", "-o", "pid=,sess=,stat="], capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(row[0]) for row in rows if len(row) == 3 and row[1] == str(session) and not row[2].startswith("Z")]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _state_and_session(pid: int) -> int | None:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[3])
