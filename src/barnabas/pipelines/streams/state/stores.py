"""A store is a dictionary that knows what has changed since its last version was written; or a table on disk that can
do the same (`disk`), where state is larger than memory.

Keys are the objects that operators use (a key, or a window's start and a key); None is never a value. `index` is for
the operator that owns the store: what it needs to find things by time, built from `data` when it is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from barnabas.pipelines.streams.objects import Key, Value

Changes = tuple[dict[Any, Any], list[Any]]  # what was put, and what was removed


class Store:
    __slots__ = ("changed", "data", "index")

    def __init__(self, data: MutableMapping[Any, Any] | None = None) -> None:
        self.data: MutableMapping[Any, Any] = {} if data is None else data
        self.changed: set[Any] = set()
        self.index: Any = None

    def get(self, key: Key, default: Any = None) -> Any:
        return self.data.get(key, default)

    def put(self, key: Key, value: Value) -> None:
        """None removes."""
        self.changed.add(key)
        if value is None:
            self.data.pop(key, None)
        else:
            self.data[key] = value

    def remove(self, key: Key) -> None:
        self.changed.add(key)
        self.data.pop(key, None)

    @property
    def on_disk(self) -> bool:
        return type(self.data) is not dict

    def entries(self) -> Iterable[tuple[Any, Any]]:
        """All keys and values; the store may be changed meanwhile."""
        return self.data.items() if self.on_disk else list(self.data.items())

    def take_changes(self) -> Changes:
        data = self.data
        put = {key: data[key] for key in self.changed if key in data}
        removed = [key for key in self.changed if key not in data]
        self.changed = set()
        return put, removed

    def apply(self, changes: Changes) -> None:
        put, removed = changes
        self.data.update(put)
        for key in removed:
            self.data.pop(key, None)
        self.index = None
