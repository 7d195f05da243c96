"""Rows on their way through the operators of one partition, by column.

`ranks` tell the record that a row comes from, and its turn (see `order`): rows stand in the order of their ranks, those
of several inputs are merged as if the records had come one by one, and an error knows which record it is about. Keys
and values stay bytes in Arrow until somebody looks at them. In the rows of a table `olds` are the values before the
change. `clock` says at which ranks stream time came to what, where rows are the last ones of windows in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.order import Numbers
from barnabas.pipelines.streams.serdes import Serde

NO_NUMBERS: Numbers = np.zeros(0, np.int64)


class Raw:
    """Bytes of a column, and how they are read; `failed` is told of the position and the reason."""

    __slots__ = ("bytes", "failed", "serde")

    def __init__(self, data: pa.Array, serde: Serde[Any], failed: Callable[[int, Exception], None]) -> None:
        self.bytes = data
        self.serde = serde
        self.failed = failed

    def decoded(self, ranks: Numbers) -> tuple[list[Any], list[int]]:
        """The objects, and the positions of those that can't be read (if `failed` goes on)."""
        if self.serde.decode_all is not None:
            try:
                return self.serde.decode_all(self.bytes), []
            except Exception:
                pass  # one by one it is told which
        decode, found, wrong = self.serde.decode, [], []
        for data in self.bytes.to_pylist():
            try:
                found.append(None if data is None else decode(data))
            except Exception as error:
                self.failed(int(ranks[len(found)]), error)
                wrong.append(len(found))
                found.append(None)
        return found, wrong

    def take(self, positions: Numbers) -> Raw:
        return Raw(self.bytes.take(pa.array(positions)), self.serde, self.failed)


class Rows:
    __slots__ = ("_keys", "_values", "clock", "olds", "ranks", "raw_keys", "raw_values", "stored", "times")

    def __init__(
        self,
        keys: list[Key] | None,
        values: list[Value] | None,
        times: Numbers,
        ranks: Numbers,
        *,
        olds: list[Value] | None = None,
        raw_keys: Raw | None = None,
        raw_values: Raw | None = None,
        clock: tuple[Numbers, Numbers] | None = None,
    ) -> None:
        self.clock = clock
        self.stored = ranks  # of a table's changes: the ranks at which they came into its store
        self._keys = keys
        self._values = values
        self.times = times
        self.ranks = ranks
        self.olds = olds
        self.raw_keys = raw_keys
        self.raw_values = raw_values

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def keys(self) -> list[Key]:
        self._read_all()
        assert self._keys is not None
        return self._keys

    @property
    def values(self) -> list[Value]:
        self._read_all()
        assert self._values is not None
        return self._values

    def _read_all(self) -> None:
        """Keys and values at once, as what is unreadable leaves both."""
        if self._keys is not None and self._values is not None:
            return
        wrong: set[int] = set()
        keys, values = self._keys, self._values
        if keys is None:
            assert self.raw_keys is not None
            keys, unreadable = self.raw_keys.decoded(self.ranks)
            wrong.update(unreadable)
        if values is None:
            assert self.raw_values is not None
            values, unreadable = self.raw_values.decoded(self.ranks)
            wrong.update(unreadable)
        self._keys, self._values = keys, values
        if wrong:
            kept = self.take([position for position in range(len(keys)) if position not in wrong])
            for name in self.__slots__:
                setattr(self, name, getattr(kept, name))

    def take(self, positions: Sequence[int] | Numbers) -> Rows:
        index = np.asarray(positions, np.int64)
        if len(index) == len(self):
            return self
        picked = index.tolist()
        return Rows(
            None if self._keys is None else [self._keys[at] for at in picked],
            None if self._values is None else [self._values[at] for at in picked],
            self.times[index],
            self.ranks[index],
            olds=None if self.olds is None else [self.olds[at] for at in picked],
            raw_keys=None if self.raw_keys is None else self.raw_keys.take(index),
            raw_values=None if self.raw_values is None else self.raw_values.take(index),
        )

    def without(self, positions: list[int]) -> Rows:
        if not positions:
            return self
        gone = set(positions)
        return self.take([at for at in range(len(self)) if at not in gone])

    def with_values(self, values: list[Value], olds: list[Value] | None = None) -> Rows:
        return Rows(self._keys, values, self.times, self.ranks, olds=olds, raw_keys=self.raw_keys)

    def later(self, turn: int) -> Rows:
        """The same rows with ranks that are greater by a turn."""
        self._read_all()  # once for all who get them
        rows = self.with_ranks(self.ranks + turn)
        rows.stored = self.ranks
        return rows

    def with_ranks(self, ranks: Numbers) -> Rows:
        rows = Rows(self._keys, self._values, self.times, ranks, olds=self.olds, clock=self.clock)
        rows.raw_keys, rows.raw_values = self.raw_keys, self.raw_values
        return rows

    def with_keys(self, keys: list[Key]) -> Rows:
        return Rows(keys, self._values, self.times, self.ranks, raw_values=self.raw_values)


def made(
    keys: list[Key], values: list[Value], times: list[int], ranks: list[int], olds: list[Value] | None = None
) -> Rows:
    return Rows(keys, values, np.array(times, np.int64), np.array(ranks, np.int64), olds=olds)


def nothing() -> Rows:
    return Rows([], [], NO_NUMBERS, NO_NUMBERS, olds=[])


def merged(inputs: Sequence[Rows]) -> Rows:
    """In the order of ranks, and of inputs where ranks are equal."""
    filled = [rows for rows in inputs if len(rows)]
    if len(filled) < 2:
        return filled[0] if filled else inputs[0]
    keys = [key for rows in filled for key in rows.keys]
    values = [value for rows in filled for value in rows.values]
    tabular = all(rows.olds is not None for rows in filled)
    olds = [old for rows in filled for old in rows.olds or ()] if tabular else None
    times, ranks = (np.concatenate(column) for column in zip(*((one.times, one.ranks) for one in filled), strict=True))
    return in_ranks(Rows(keys, values, times, ranks, olds=olds))


def in_ranks(rows: Rows) -> Rows:
    """In the order of ranks."""
    if len(rows) < 2 or (rows.ranks[:-1] <= rows.ranks[1:]).all():
        return rows
    return reordered(rows, np.argsort(rows.ranks, kind="stable"))


def reordered(rows: Rows, order: Numbers) -> Rows:
    picked = order.tolist()
    keys, values = rows.keys, rows.values
    olds = None if rows.olds is None else [rows.olds[at] for at in picked]
    return Rows(
        [keys[at] for at in picked],
        [values[at] for at in picked],
        rows.times[order],
        rows.ranks[order],
        olds=olds,
        clock=rows.clock,
    )
