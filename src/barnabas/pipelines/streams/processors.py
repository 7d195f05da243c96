"""The Processor API: code of one's own in a topology, with state stores, forward and punctuation.

    class Alarm(Processor):
        def init(self, context):
            self.context, self.last = context, context.store("last")
            context.schedule(timedelta(minutes=1), self.look)

        def process(self, record):
            self.last.put(record.key, record.timestamp_ms)

        def look(self, now_ms):
            for key, last_ms in self.last.all():
                if now_ms - last_ms > 60_000:
                    self.context.forward(Record(key, "silent", now_ms))

    topology.stream("signs").process(Alarm, stores=["last"]).to("alarms")

A processor is made for each partition and each batch: what it has to remember is in stores, whose state is in the
checkpoint with that of all other operators.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.windows import Duration

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class PunctuationType(enum.Enum):
    """By stream time after the record that moves it on, by wall clock at the end of a batch."""

    STREAM_TIME = "stream-time"
    WALL_CLOCK_TIME = "wall-clock-time"


@dataclass(frozen=True)
class Record(Generic[K, V]):
    key: K
    value: V
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = field(default=(), compare=False)  # of the record that came in

    def with_key(self, key: K2) -> Record[K2, V]:
        return replace(self, key=key)  # type: ignore[arg-type, return-value]

    def with_value(self, value: V2) -> Record[K, V2]:
        return replace(self, value=value)  # type: ignore[arg-type, return-value]

    def with_timestamp(self, timestamp_ms: int) -> Record[K, V]:
        return replace(self, timestamp_ms=timestamp_ms)


class Processor:
    """`process` is called for each record, in their order."""

    def init(self, context: ProcessorContext) -> None:
        """Before the first record of a batch."""

    def process(self, record: Record[Any, Any]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """After the last record of a batch."""


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class ProcessorContext(Protocol):
    """What a processor has of its partition."""

    stream_time_ms: int  # the greatest time of a record so far, -1 before the first
    wall_clock_ms: int  # when the batch began

    def store(self, name: str) -> KeyValueStore: ...

    def forward(self, record: Record[Any, Any]) -> None:
        """To what is behind the processor. The headers of the result are those of the record that came in."""

    def schedule(
        self,
        interval: Duration,
        punctuator: Callable[[int], Any],
        kind: PunctuationType = PunctuationType.STREAM_TIME,
    ) -> Cancellable:
        """In `init`: calls the punctuator with the time, whenever so much time has passed."""


class KeyValueStore:
    """A store of a processor. Values are objects: what was changed in place counts when it is put."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: Key, default: Any = None) -> Any:
        return self._store.get(key, default)

    def put(self, key: Key, value: Value) -> None:
        """None removes."""
        self._store.put(key, value)

    def put_if_absent(self, key: Key, value: Value) -> Any:
        """The value that was there."""
        old = self._store.get(key)
        if old is None:
            self._store.put(key, value)
        return old

    def delete(self, key: Key) -> Any:
        """The value that was there."""
        old = self._store.get(key)
        if old is not None:
            self._store.remove(key)
        return old

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """Keys from `first` to `last`, both included, in their order."""
        return ((key, value) for key, value in self.all() if first <= key <= last)

    def all(self) -> Iterator[tuple[Any, Any]]:
        """In the order of keys. The store may be changed meanwhile."""
        try:
            return iter(sorted(self._store.data.items(), key=lambda entry: entry[0]))
        except TypeError:
            raise StreamsError("keys of a store that have no order can't be listed: use keys of one type") from None

    def __contains__(self, key: Key) -> bool:
        return key in self._store.data

    def __len__(self) -> int:
        return len(self._store.data)
