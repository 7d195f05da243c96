"""What an aggregate shows of a batch: every change, or each place once, with its value before the batch and after it.

A place is a key, or a window of a key. The time of a change is the latest of all records that went into the aggregate,
which is kept beside it: so it does not depend on where batches end.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from barnabas.pipelines.streams.objects import Folded, Value
from barnabas.pipelines.streams.operators.operator import Task
from barnabas.pipelines.streams.rows import Rows, in_ranks, made

IMMUTABLE = frozenset((int, float, str, bytes, bool, type(None), Decimal))


def latest_of(store_name: str) -> str:
    """The store of times beside a store of aggregates."""
    return f"{store_name}-latest"


class Changes:
    """`before` is told what is there before a record is added, and `after` what is there then. Of sessions the end is
    the time, and nothing is said of one that has come and gone within a batch."""

    def __init__(
        self,
        task: Task,
        store_name: str,
        result: Callable[[Any], Any],
        *,
        every_change: bool,
        sessions: bool = False,
        leaves_old: bool = False,
    ) -> None:
        self._every, self._result = every_change, result
        self._kept = _same if leaves_old else kept
        self._latest = None if sessions else task.store(latest_of(store_name))
        self._old: Any = None  # of the place at hand
        self._fresh = True  # whether there was nothing in this place
        self._was: dict[Any, Any] = {}  # of each place before the batch
        self._last: dict[Any, tuple[Any, int, int]] = {}
        self._rows: list[tuple[Any, Any, Any, int, int]] = []  # place, new, old, time, rank

    def before(self, place: Any, old: Any) -> None:
        if self._every:
            self._old = None if old is None else self._kept(self._result(old))
        elif place not in self._was:
            self._was[place] = self._kept(old)
        self._fresh = old is None

    def after(self, place: Any, new: Any, time: int, rank: int) -> None:
        if self._latest is not None:
            held = None if self._fresh else self._latest.get(place)
            if held is None or time > held:
                self._latest.put(place, time)
            else:
                time = held
        if self._every:
            shown = None if new is None else self._kept(self._result(new))
            self._rows.append((place, shown, self._old, time, rank))
        else:
            self._last.pop(place, None)  # places stand in the order of their last changes
            self._last[place] = (new, time, rank)

    def rows(self, key_of: Callable[[Any], Any] = lambda place: place) -> Rows:
        if not self._every:
            self._rows = [
                (place, self._shown(new), self._shown(self._was[place]), time, rank)
                for place, (new, time, rank) in self._last.items()
                if new is not None or self._was[place] is not None or self._latest is not None
            ]
        places, news, olds, times, ranks = zip(*self._rows, strict=True) if self._rows else ((), (), (), (), ())
        return in_ranks(made([key_of(place) for place in places], list(news), list(times), list(ranks), list(olds)))

    def _shown(self, aggregate: Folded) -> Folded:
        return None if aggregate is None else self._result(aggregate)


def _same(value: Value) -> Any:
    return value


def kept(value: Value) -> Any:
    """What stays as it is when the function changes the original."""
    return value if is_immutable(value) else pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def is_immutable(value: Value) -> bool:
    kind = type(value)
    if kind is not tuple:
        return kind in IMMUTABLE
    return IMMUTABLE.issuperset(map(type, value)) or all(map(is_immutable, value))
