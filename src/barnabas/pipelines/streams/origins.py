"""Which record a rank stands for, in which order records are processed, and what is said when one can't be.

Within a topic's partition records keep the order of their offsets. Those of several topics, or from several partitions
behind a repartition, are merged by time as Kafka Streams does it: always the one whose partition has come least far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.pipelines.streams.rows import Numbers


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"


class Origins:
    """`reached` is the greatest time of the record's partition so far; records stand in the order of processing."""

    def __init__(self, reached: Numbers, topics: Numbers, partitions: Numbers, offsets: Numbers) -> None:
        self.reached, self.topics, self.partitions, self.offsets = reached, topics, partitions, offsets
        self.keys: pa.Array | None = None  # of records as they came from topics
        self.values: pa.Array | None = None
        self.headers: pa.Array | None = None  # of records; None if none has any

    def headers_at(self, ranks: Numbers) -> pa.Array | None:
        return None if self.headers is None else self.headers.take(pa.array(ranks))

    def place(self, rank: int, names: Sequence[str]) -> Place:
        return Place(names[int(self.topics[rank])], int(self.partitions[rank]), int(self.offsets[rank]))

    def columns(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        return self.reached, self.topics, self.partitions, self.offsets

    def at(self, ranks: Numbers) -> tuple[Numbers, ...]:
        return tuple(column[ranks] for column in self.columns())


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
    reached, topics, partitions, offsets = columns
    order = np.lexsort((offsets, partitions, topics, reached))
    ordered = [column[order] for column in columns]
    new = np.ones(len(order), bool)
    if len(order) > 1:
        same: Any = ordered[1][1:] == ordered[1][:-1]
        for column in ordered[2:]:
            same = same & (column[1:] == column[:-1])
        new[1:] = ~same
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(new) - 1
    origins = Origins(*(column[new] for column in ordered))
    ends = np.cumsum([len(part[0]) for part in parts])
    return origins, [ranks[end - len(part[0]) : end] for part, end in zip(parts, ends.tolist(), strict=True)]
