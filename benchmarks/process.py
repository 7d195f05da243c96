"""What a server costs, read from /proc: resident memory and CPU seconds of a process and its children."""

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of the tree, children that have ended and were waited for included."""
    total = 0
    for member in _tree(pid):
        fields = _stat(member)
        if fields:
            total += sum(int(field) for field in fields[11:15])
    return total / _TICKS_PER_SECOND


def resident_mb(pid: int) -> float:
    total_kb = 0
    for member in _tree(pid):
        try:
            status = Path(f"/proc/{member}/status").read_text()
        except OSError:
            continue
        total_kb += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return total_kb / 1024


def proportional_mb(pid: int) -> float:
    """Memory of the tree in which what processes share counts once."""
    total_kb = 0
    for member in _tree(pid):
        try:
            rollup = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue
        total_kb += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total_kb / 1024


def written_bytes(pid: int) -> int:
    """What the process itself has sent to disks, as far as it is known already."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))


def peak_mb(pid: int) -> dict[int, float]:
    """The greatest resident set so far of a process and of each of its children."""
    found: dict[int, float] = {}
    for member in _tree(pid):
        try:
            status = Path(f"/proc/{member}/status").read_text()
        except OSError:
            continue
        found[member] = sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
    return found


def _tree(pid: int) -> list[int]:
    found = [pid]
    for member in found:
        for task in Path(f"/proc/{member}/task").glob("*"):
            try:
                found += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                continue
    return found


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
