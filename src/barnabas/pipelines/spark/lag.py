"""How far a streaming query is behind: read out of its progress, which carries where topics end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.offsets import partition_offsets


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets between the end of the last batch and the end of each partition when that batch was planned."""

    partitions: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.partitions.values())

    @property
    def greatest(self) -> int:
        return max(self.partitions.values(), default=0)


def lag(progress: Any) -> Lag:
    """Of a query's progress: `query.lastProgress`, one of `query.recentProgress`, or a listener's event.progress.

    The sources of topics count, whether they are ours or the JVM connector's; others have no offsets of topics.
    """
    if progress is None:
        return Lag({})
    facts = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    behind: dict[TopicPartition, int] = {}
    for source in facts.get("sources", []):
        try:
            ended, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        except (AttributeError, TypeError, ValueError):
            continue
        for partition, offset in latest.items():
            behind[partition] = max(offset - ended.get(partition, 0), 0)
    return Lag(behind)


def _offsets(value: Any) -> dict[TopicPartition, int]:
    parsed = json.loads(value) if isinstance(value, str) else value
    return partition_offsets({topic: numbers for topic, numbers in parsed.items() if not topic.startswith("$")})
