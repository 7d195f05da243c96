"""Many records of one topic at once, as Arrow columns: what sources and sinks exchange where no transformation asks
for a record of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.connect.data.schema import Schema


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """Values without keys. The offset is that behind the last of them."""

    topic: str
    values: Any  # binary; texts are valid UTF-8
    source_partition: dict[str, Any]
    source_offset: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Records of one partition: a table with a row for each, their offsets and times."""

    topic: str
    partition: int
    schema: Schema | None
    table: Any
    offsets: Any
    times_ms: Any

    def __len__(self) -> int:
        return len(self.offsets)
