"""A table joined with another by a key inside its values.

Where a row lives, `Subscribe` turns its change into messages to the partitions of the foreign keys: to leave the old
one and to enter the new one. There `JoinByForeignKey` keeps the rows of both tables. A batch sends at most one change
of a row, and leaving comes first, so a row gets one result in a batch and all partitions agree which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.streams.operators.aggregates import hashable
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.stores import Store

ENTER, LEAVE, END = "enter", "leave", "end"


@dataclass
class Subscribe(Operator):
    """Values are (what to do, the row's key, the row's value). A row without a foreign key has no partner: a left join
    shows it, an inner join shows that it is gone; both by a message that goes anywhere."""

    store_name: str
    foreign_key: Callable[[Any, Any], Any]
    kind = "subscribe"

    def __post_init__(self) -> None:
        self.stores = (self.store_name,)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        store = task.store(self.store_name)
        last: dict[Any, tuple[Any, int, int]] = {}
        columns = zip(rows.keys, rows.values, rows.times.tolist(), rows.ranks.tolist(), strict=True)
        for key, value, time, rank in columns:
            last[hashable(key)] = (value, time, rank)
        keys, messages, times, ranks = [], [], [], []
        for key, (value, time, rank) in last.items():
            old = store.get(key)
            try:
                new = None if value is None else self.foreign_key(key, value)
            except Exception as error:
                task.fail(rank, error)
                continue
            store.put(key, None if value is None else (new,))
            sent = [] if old is None or old[0] is None or old[0] == new else [(old[0], (LEAVE, key, None))]
            if new is not None:
                sent.append((new, (ENTER, key, value)))
            elif old is not None or value is not None:
                sent.append((None, (END, key, value)))
            for target, message in sent:
                keys.append(target)
                messages.append(message)
                times.append(time)
                ranks.append(rank)
        return made(keys, messages, times, ranks)


@dataclass
class JoinByForeignKey(Operator):
    """Inputs: messages, and the other table's changes. Stores: subscribers by foreign key, and the other table."""

    subscribers: str
    table: str
    joiner: Callable[[Any, Any], Any]
    left: bool
    kind = "join-by-foreign-key"

    def __post_init__(self) -> None:
        self.kind = "left-join-by-foreign-key" if self.left else "join-by-foreign-key"
        self.stores = (self.subscribers, self.table)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        messages, changes = inputs
        table, subscribers = task.store(self.table), task.store(self.subscribers)
        for key, value in zip(changes.keys, changes.values, strict=True):
            table.put(hashable(key), value)
        touched: dict[Any, tuple[Any, Any, int, int]] = {}  # row's key: foreign key or None, row, time, rank
        columns = zip(messages.keys, messages.values, messages.times.tolist(), messages.ranks.tolist(), strict=True)
        for foreign, (what, key, value), time, rank in sorted(columns, key=lambda one: one[1][0] != LEAVE):
            if what == LEAVE:
                put_subscriber(subscribers, foreign, key, None)
                continue
            if what == ENTER:
                put_subscriber(subscribers, foreign, key, value)
            touched[key] = (foreign if what == ENTER else None, value, time, rank)
        for foreign, time, rank in zip(changes.keys, changes.times.tolist(), changes.ranks.tolist(), strict=True):
            for key, value in subscribers.get(foreign, {}).items():
                touched[key] = (foreign, value, time, rank)
        return self.results(task, table, touched)

    def results(self, task: Task, table: Store, touched: dict[Any, tuple[Any, Any, int, int]]) -> Rows:
        keys, values, times, ranks = [], [], [], []
        for key, (foreign, value, time, rank) in sorted(touched.items(), key=lambda one: one[1][3]):
            other = None if foreign is None else table.get(foreign)
            try:
                found = self.joiner(value, other) if value is not None and (other is not None or self.left) else None
            except Exception as error:
                task.fail(rank, error)
                continue
            keys.append(key)
            values.append(found)
            times.append(time)
            ranks.append(rank)
        return made(keys, values, times, ranks)


def put_subscriber(store: Store, foreign: Any, key: Any, value: Any) -> None:
    rows = dict(store.get(hashable(foreign), {}))
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
    store.put(foreign, rows or None)
