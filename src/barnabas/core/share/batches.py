"""How far records of a share partition have come, as ranges of offsets: what is written down, and how it adds up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class StateBatch(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combine(so_far: Iterable[StateBatch], later: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """What was said later counts; what lies before the start is forgotten; neighbours that are alike become one."""
    kept = list(so_far)
    for new in later:
        kept = [piece for old in kept for piece in _without(old, new)]
        kept.append(new)
    kept.sort()
    merged: list[StateBatch] = []
    for each in kept:
        if each.last_offset < start_offset:
            continue
        batch = each._replace(first_offset=max(each.first_offset, start_offset))
        last = merged[-1] if merged else None
        if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            merged[-1] = last._replace(last_offset=batch.last_offset)
        else:
            merged.append(batch)
    return tuple(merged)


def _without(old: StateBatch, new: StateBatch) -> Iterable[StateBatch]:
    if old.last_offset < new.first_offset or new.last_offset < old.first_offset:
        yield old
        return
    if old.first_offset < new.first_offset:
        yield old._replace(last_offset=new.first_offset - 1)
    if old.last_offset > new.last_offset:
        yield old._replace(first_offset=new.last_offset + 1)
