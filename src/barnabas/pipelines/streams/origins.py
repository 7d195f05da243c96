"""Which record a rank stands for, in which order records are processed, and what is said when one can't be.

Within a topic's partition records keep the order of their offsets. Those of several topics, or from several partitions
behind a repartition, are merged by time as Kafka Streams does it: always the one whose partition has come least far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.pipelines.streams.order import ROOM, Numbers, dense, records_of, turns_of


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"


class Origins:
    """`reached` is the greatest time of the record's partition so far; records stand in the order of processing. `room`
    is what ranks of rows that come in leave for turns."""

    def __init__(
        self, reached: Numbers, topics: Numbers, partitions: Numbers, offsets: Numbers, room: int = ROOM
    ) -> None:
        self.room = room
        self.reached, self.topics, self.partitions, self.offsets = reached, topics, partitions, offsets
        self.room = ROOM
        self.keys: pa.Array | None = None  # of records as they came from topics
        self.values: pa.Array | None = None
        self.headers: pa.Array | None = None  # of records; None if none has any

    def headers_at(self, ranks: Numbers) -> pa.Array | None:
        return None if self.headers is None else self.headers.take(pa.array(records_of(ranks)))

    def place(self, record: int, names: Sequence[str]) -> Place:
        return Place(names[int(self.topics[record])], int(self.partitions[record]), int(self.offsets[record]))

    def at(self, ranks: Numbers) -> tuple[Numbers, ...]:
        """What other stages sort rows by."""
        records = records_of(ranks)
        columns = (self.reached, self.topics, self.partitions, self.offsets)
        return (*(column[records] for column in columns), turns_of(ranks))


def reached_by(times: Numbers, topics: Numbers) -> Numbers:
    """The greatest time so far of each record's topic; records of a topic stand by offset."""
    found = np.empty_like(times)
    for topic in np.unique(topics):
        here = np.flatnonzero(topics == topic)
        found[here] = np.maximum.accumulate(times[here])
    return found


def ranked(parts: Sequence[tuple[Numbers, ...]]) -> tuple[Origins, list[Numbers]]:
    """Origins of rows that come from several places, and for each place the ranks of its rows."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    reached, topics, partitions, offsets, turns = columns
    order = np.lexsort((turns, offsets, partitions, topics, reached))
    ordered = [column[order] for column in columns]
    new = np.ones(len(order), bool)
    if len(order) > 1:
        same: Any = ordered[1][1:] == ordered[1][:-1]
        for column in ordered[2:4]:
            same = same & (column[1:] == column[:-1])
        new[1:] = ~same
    ranks = np.empty(len(order), np.int64)
    origins = Origins(ordered[0][new], ordered[1][new], ordered[2][new], ordered[3][new])
    ranks[order], origins.room = dense(np.cumsum(new) - 1, ordered[4])
    ends = np.cumsum([len(part[0]) for part in parts])
    return origins, [ranks[end - len(part[0]) : end] for part, end in zip(parts, ends.tolist(), strict=True)]
