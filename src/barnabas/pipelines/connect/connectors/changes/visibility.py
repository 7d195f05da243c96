"""Which transactions a snapshot of PostgreSQL has seen: `xmin:xmax:running,running` of `pg_current_snapshot()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Visibility:
    """`lsn` was read behind the snapshot: what commits there or later was not seen."""

    xmin: int
    xmax: int
    running: frozenset[int]
    lsn: int

    @classmethod
    def parse(cls, text: str, lsn: int | None = None) -> Self:
        parts = text.split(":")
        if lsn is None:
            lsn = int(parts.pop())
        running = frozenset(int(each) for each in parts[2].split(",") if each)
        return cls(int(parts[0]), int(parts[1]), running, lsn)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}:{self.lsn}"

    @property
    def last_xid(self) -> int:
        return self.xmax - 1

    def has_seen(self, xid: int, commit_lsn: int) -> bool:
        """`xid` has 32 bits, as the stream tells it."""
        if commit_lsn >= self.lsn:
            return False
        whole = (self.xmax & ~0xFFFFFFFF) | xid
        if whole - self.xmax > 1 << 31:
            whole -= 1 << 32
        elif self.xmax - whole > 1 << 31:
            whole += 1 << 32
        return whole < self.xmax and whole not in self.running
