"""A record on its way through a connector, with what a sink or a source knows beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from barnabas.pipelines.connect.data.schema import Schema


class Header(NamedTuple):
    key: str
    value: Any = None
    schema: Schema | None = None


class SchemaAndValue(NamedTuple):
    schema: Schema | None
    value: Any


NOTHING = SchemaAndValue(None, None)


@dataclass(slots=True)
class Record:
    """`offset` is that of the topic for sinks. `source_partition` and `source_offset` are what a source gives."""

    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()
    offset: int | None = None
    source_partition: dict[str, Any] | None = None
    source_offset: dict[str, Any] | None = None
    original: tuple[str, int, int] | None = None  # topic, partition and offset before the transformations

    @property
    def is_sink(self) -> bool:
        return self.offset is not None

    def but(self, **changes: Any) -> Record:
        return replace(self, **changes)
