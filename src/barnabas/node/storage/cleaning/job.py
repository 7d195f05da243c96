"""What a cleaner is told and what it tells, as lines of JSON between the node and its child."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One cleaning of one log, from the first dirty offset up to the first uncleanable one."""

    directory: str
    inode: int  # a directory of the same name may belong to a topic that came later
    segments: list[tuple[int, int]]  # base offset and size of those below the first uncleanable offset
    transaction_indexes: list[int]  # base offsets of all segments that have one, the active one included
    first_dirty_offset: int
    first_uncleanable_offset: int
    producers: dict[int, tuple[int, int]]  # producer id -> last offset of its data (or -1) and its epoch
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    dedupe_bytes: int
    load_factor: float
    io_max_bytes_per_second: float

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: str) -> Job:
        fields: dict[str, Any] = json.loads(line)
        fields["segments"] = [(base_offset, size) for base_offset, size in fields["segments"]]
        fields["producers"] = {int(key): (last, epoch) for key, (last, epoch) in fields["producers"].items()}
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """These segments have become one, which lies beside them as `.cleaned` files, on the disk."""

    base_offsets: list[int]
    size: int
    has_txn_index: bool
    more: bool = False  # the next group is on the disk too and follows at once: they come in together


@dataclass(slots=True, kw_only=True)
class Finished:
    """The cleaning is over: everything below `end_offset` is clean."""

    end_offset: int
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keys: int = 0
    map_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why it was not done; `errno` if the disk is to blame, 0 if the log is."""

    reason: str
    errno: int = field(default=0)


Message = CleanedGroup | Finished | Failed
KINDS: dict[str, type[CleanedGroup] | type[Finished] | type[Failed]] = {
    kind.__name__: kind for kind in (CleanedGroup, Finished, Failed)
}


def encode_message(message: Message) -> str:
    return json.dumps({"kind": type(message).__name__, **asdict(message)}) + "\n"


def decode_message(line: bytes) -> Message:
    fields: dict[str, Any] = json.loads(line)
    return KINDS[fields.pop("kind")](**fields)
