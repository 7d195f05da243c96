"""Where a row stands among all rows of a batch: its rank, one number.

A stage works off a batch operator by operator, and gives what it would give record by record. Two rules make that so:

    what an operator makes of a row has the row's rank, so rows that meet are merged by rank
    what an operator makes of the rows up to a rank does not depend on the rows behind it

The upper bits of a rank are the number of the record in the order of processing, the lower ones the turn among the rows
that come of this record: Kafka Streams forwards a row to the first operator behind it, and all that comes of it there
is done before the second operator gets the row. So of several rows of a rank each gets a turn of its own (`spread`),
and where a row goes to several operators that lead to one place (`forks`), each operator has a turn of its own. Turns
are cut from the turn above, like digits behind a point: `room` is what is left to be cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
BITS = 32
ROOM = 1 << (BITS - 1)  # the upper half of a record's turns is for what comes after all rows of the record


def ranks_of(records: Numbers) -> Numbers:
    """Ranks of rows that are records themselves."""
    return records << BITS


def records_of(ranks: Numbers) -> Numbers:
    return ranks >> BITS


def turns_of(ranks: Numbers) -> Numbers:
    return ranks & ((1 << BITS) - 1)


def last_turn(record: int) -> int:
    """The rank of what a record brings about after all that comes of it."""
    return (record << BITS) + ROOM


def spread(ranks: Numbers, room: int) -> tuple[Numbers, int]:
    """Ranks, in ascending order, with a turn for each row; and the room that each of these has."""
    if len(ranks) < 2:
        return ranks, room
    new = np.concatenate(([True], ranks[1:] != ranks[:-1]))
    if new.all():
        return ranks, room
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, len(ranks)))
    step = room // int(counts.max())
    if not step:
        return ranks, room  # more rows of one record than there are turns: they keep the order of their operators
    return ranks + (np.arange(len(ranks)) - np.repeat(starts, counts)) * step, step


def dense(records: Numbers, turns: Numbers) -> tuple[Numbers, int]:
    """Ranks of rows that arrive from another stage, by record and turn in ascending order, with room between them."""
    if not len(records):
        return records, ROOM
    new_record = np.concatenate(([True], records[1:] != records[:-1]))
    new_turn = new_record | np.concatenate(([True], turns[1:] != turns[:-1]))
    count = np.cumsum(new_turn) - 1
    turn = count - np.maximum.accumulate(np.where(new_record, count, 0))
    step = ROOM // (int(turn.max()) + 1)
    return (records << BITS) + turn * step, step


def forks(consumers: Mapping[int, Sequence[int]], meetings: Iterable[Iterable[int]]) -> dict[int, tuple[int, ...]]:
    """Nodes whose rows come to one place by several ways, with what is behind them, in the order of turns. Rows meet
    where one of the numbers of a meeting is reached from one operator behind the node, and one from another."""
    reached: dict[int, set[int]] = {}
    met = [set(one) for one in meetings]

    def places(node: int) -> set[int]:
        if node not in reached:
            own = {place for place, numbers in enumerate(met) if node in numbers}
            reached[node] = own.union(*(places(one) for one in consumers.get(node, ())))
        return reached[node]

    found = {}
    for node, behind in consumers.items():
        seen: set[int] = set()
        for one in behind:
            if seen & places(one):
                found[node] = tuple(behind)
                break
            seen |= places(one)
    return found
