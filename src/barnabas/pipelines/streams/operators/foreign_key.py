"""A table joined with another by a key inside its values.

Where a row lives, `Subscribe` turns its change into messages to the partitions of the foreign keys: to leave the old
one and to enter the new one. There `JoinByForeignKey` keeps the rows of both tables. Results go back to the partition
of the row, which gets those from several foreign keys in the order of the changes that brought them about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.aggregates import hashable, in_order
from barnabas.pipelines.streams.operators.changes import latest_of
from barnabas.pipelines.streams.operators.operator import Joiner, Operator, Task
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.key_bytes import to_bytes
from barnabas.pipelines.streams.state.shapes import KEYS
from barnabas.pipelines.streams.state.stores import Store

ENTER, LEAVE, END = "enter", "leave", "end"


@dataclass
class Subscribe(Operator):
    """Values are (what to do, the row's key, the row's value). A row without a foreign key has no partner: a left join
    shows it, an inner join shows that it is gone; both by a message that goes anywhere."""

    store_name: str
    foreign_key: Callable[[Key, Value], Key]
    kind = "subscribe"
    several_rows = True

    def __post_init__(self) -> None:
        self.stores = (self.store_name,)

    def shapes(self) -> dict[str, str]:
        return dict.fromkeys(self.stores, KEYS)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        store = task.store(self.store_name)
        keys, messages, times, ranks = [], [], [], []
        columns = zip(rows.keys, rows.values, rows.times.tolist(), rows.ranks.tolist(), strict=True)
        for key, value, time, rank in columns:
            old = store.get(hashable(key))
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
    """Inputs: messages, and the other table's changes. Stores: subscribers by foreign key, the other table, and beside
    it the times of its rows: a row that enters gives a result of the later time, as in Kafka Streams."""

    subscribers: str
    table: str
    joiner: Joiner
    left: bool
    kind = "join-by-foreign-key"
    several_rows = True

    def __post_init__(self) -> None:
        self.kind = "left-join-by-foreign-key" if self.left else "join-by-foreign-key"
        self.stores = (self.subscribers, self.table)

    def shapes(self) -> dict[str, str]:
        return dict.fromkeys((*self.stores, latest_of(self.table)), KEYS)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        table, subscribers = task.store(self.table), task.store(self.subscribers)
        latest = task.store(latest_of(self.table))
        keys, values, times, ranks = [], [], [], []
        for side, foreign, content, time, rank in in_order(inputs):
            if side:
                touched = self.changed(table, subscribers, foreign, content)
                latest.put(foreign, None if content is None else time)
            else:
                touched = self.told(subscribers, foreign, content)
            other = None if foreign is None else table.get(foreign)
            if other is not None and not side:
                time = max(time, latest.get(foreign, -1))
            for key, value in touched:
                there = value is not None and (other is not None or self.left)
                try:
                    found = self.joiner(value, other) if there else None
                except Exception as error:
                    task.fail(rank, error)
                    continue
                keys.append(key)
                values.append(found)
                times.append(time)
                ranks.append(rank)
        return made(keys, values, times, ranks)

    def changed(self, table: Store, subscribers: Store, foreign: Key, value: Value) -> list[tuple[Any, Any]]:
        """The rows, by key, that a change of the other table touches."""
        table.put(hashable(foreign), value)
        return by_key(subscribers.get(foreign, {}))

    def told(self, subscribers: Store, foreign: Key, message: Any) -> list[tuple[Any, Any]]:
        what, key, value = message
        if what == LEAVE:
            put_subscriber(subscribers, foreign, key, None)
            return []
        if what == ENTER:
            put_subscriber(subscribers, foreign, key, value)
        return [(key, value)]


def by_key(rows: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """In the order of their keys, as Kafka Streams finds them in its store."""
    try:
        return sorted(rows.items(), key=itemgetter(0))
    except TypeError:  # keys of several kinds, or of one that has no order
        return sorted(rows.items(), key=lambda row: to_bytes(row[0]))


def put_subscriber(store: Store, foreign: Key, key: Key, value: Value) -> None:
    rows = dict(store.get(hashable(foreign), {}))
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
    store.put(foreign, rows or None)
