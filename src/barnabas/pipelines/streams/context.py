"""`with_context`: functions that are told where a record comes from, and when.

    stream.map_values(with_context(lambda key, value, context: {**value, "offset": context.offset}))

It is for functions of streams that take key and value. Behind a repartition, a join or an aggregate the record is the
one that brought the row about, and the time is the row's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.pipelines.streams.errors import TopologyError

Headers = tuple[tuple[str, bytes | None], ...]


class RecordContext(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    headers: Headers


class WithContext:
    """A function of key, value and context. As a function of key and value it can't be called."""

    def __init__(self, function: Callable[[Any, Any, RecordContext], Any]) -> None:
        self.function = function

    def __call__(self, key: Any, value: Any, context: RecordContext) -> Any:
        return self.function(key, value, context)


def with_context(function: Callable[[Any, Any, RecordContext], Any]) -> Any:
    if not callable(function):
        raise TopologyError(f"with_context() needs a function of key, value and context, not {function!r}")
    return WithContext(function)
