"""State that can be read as of the last commit and taken back to an earlier moment.

A `Timeline` counts positions: one for each decision. While it records, every change of a table made at a position keeps
the value that was there before, in the table (so that a committed value can be read) and in the order of all changes
(so that they can be forgotten or undone). `commit(position)` forgets what is before and at the position, `revert
(position)` undoes what is behind it, the newest first. Both cost as much as there are changes between, never more; a
table without uncommitted changes is a dict.

Values are replaced, never changed in place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT: Final[Any] = object()


class Timeline:
    __slots__ = ("_changes", "position", "recording")

    def __init__(self) -> None:
        self.position = 0
        # Off while committed records are loaded: there is nothing before them to go back to.
        self.recording = False
        self._changes: deque[tuple[int, TimelineDict[Any, Any], Any]] = deque()

    def begin(self) -> int:
        """The position of the decision that follows."""
        self.recording = True
        self.position += 1
        return self.position

    def commit(self, position: int) -> None:
        changes = self._changes
        while changes and changes[0][0] <= position:
            _, table, key = changes.popleft()
            table._forget(key)

    def revert(self, position: int) -> None:
        changes = self._changes
        while changes and changes[-1][0] > position:
            _, table, key = changes.pop()
            table._undo(key)

    @property
    def is_committed(self) -> bool:
        return not self._changes

    def _changed(self, table: TimelineDict[Any, Any], key: Any) -> None:
        self._changes.append((self.position, table, key))


class TimelineDict(Generic[K, V]):
    __slots__ = ("_before", "_timeline", "_values")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._values: dict[K, V] = {}
        # What a key had before each of its uncommitted changes, the oldest first: that one is the committed value.
        self._before: dict[K, deque[Any]] = {}

    # The latest state, uncommitted changes included

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def keys(self) -> KeysView[K]:
        return self._values.keys()

    def values(self) -> ValuesView[V]:
        return self._values.values()

    def items(self) -> ItemsView[K, V]:
        return self._values.items()

    def __setitem__(self, key: K, value: V) -> None:
        if self._timeline.recording:
            self._keep(key)
        self._values[key] = value

    def pop(self, key: K) -> V | None:
        if key not in self._values:
            return None
        if self._timeline.recording:
            self._keep(key)
        return self._values.pop(key)

    # The committed state

    def committed(self, key: K) -> V | None:
        before = self._before.get(key)
        if before is None:
            return self._values.get(key)
        return None if before[0] is _ABSENT else before[0]

    def committed_items(self) -> Iterator[tuple[K, V]]:
        if not self._before:
            yield from self._values.items()
            return
        for key, value in self._values.items():
            if key not in self._before:
                yield key, value
        for key, before in self._before.items():
            if before[0] is not _ABSENT:
                yield key, before[0]

    @property
    def is_unused(self) -> bool:
        """Neither holds anything nor may be asked to hold it again."""
        return not self._values and not self._before

    def _keep(self, key: K) -> None:
        before = self._before.get(key)
        if before is None:
            before = self._before[key] = deque()
        before.append(self._values.get(key, _ABSENT))
        self._timeline._changed(self, key)

    def _forget(self, key: K) -> None:
        before = self._before[key]
        before.popleft()
        if not before:
            del self._before[key]

    def _undo(self, key: K) -> None:
        before = self._before[key]
        value = before.pop()
        if not before:
            del self._before[key]
        if value is _ABSENT:
            self._values.pop(key, None)
        else:
            self._values[key] = value
