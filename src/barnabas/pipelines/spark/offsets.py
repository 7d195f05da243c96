"""The offset of a stream, as Spark keeps it in the checkpoint.

    {"$unpinned": true}                                                   before the first batch
    {"plant": {"0": 17, "1": 4}, "$ids": {"plant": "sXq..."}, "$first": {"plant": {"0": 12, "1": 4}}}
    {"plant": {"0": 40, "1": 9}, "$ids": {"plant": "sXq..."}}

Topics, partitions and offsets are as the JVM Kafka connector writes them; names with a `$` are ours, no topic has one.
`$first` is where partitions begin that are not in the offset before: it is logged by Spark before anything is read, so
a query that crashes goes on from there, whatever the topic's earliest or latest offset is by then. `$ids` tells a topic
from another that has its name. An offset of the JVM connector, which has neither, is taken too: its checkpoints go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.metadata import TopicPartition

UNPINNED = "$unpinned"
FIRST = "$first"
IDS = "$ids"
LAG = "$lag"
LAG_TOTAL = "$lagTotal"

Offsets = Mapping[TopicPartition, int]


class IncompatibleCheckpoint(Exception):
    """The checkpoint belongs to another kind of query."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    offsets: Offsets
    ids: Mapping[str, str] = field(default_factory=dict)
    first: Offsets = field(default_factory=dict)

    @classmethod
    def parse(cls, value: Any) -> StreamOffset:
        """The unpinned offset is one without partitions."""
        try:
            if UNPINNED in value:
                return cls({})
            ids = {str(topic): str(topic_id) for topic, topic_id in value.get(IDS, {}).items()}
            topics = {topic: numbers for topic, numbers in value.items() if not topic.startswith("$")}
            return cls(partition_offsets(topics), ids, partition_offsets(value.get(FIRST, {})))
        except (AttributeError, TypeError, ValueError):
            raise IncompatibleCheckpoint(
                f"the checkpoint holds {value}, which is no offset of topics: it belongs to another query, "
                "choose another checkpointLocation"
            ) from None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = nested(self.offsets)
        if self.ids:
            value[IDS] = dict(sorted(self.ids.items()))
        if self.first:
            value[FIRST] = nested(self.first)
        return value

    def begin(self, start: StreamOffset, partition: TopicPartition) -> int | None:
        """Where a partition of this offset is read from, after `start`; None if nothing says it."""
        if partition in self.first and not self.continues(start, partition):
            return self.first[partition]
        return start.offsets.get(partition)

    def continues(self, start: StreamOffset, partition: TopicPartition) -> bool:
        """Whether `start` knows this partition, of this very topic."""
        if partition not in start.offsets:
            return False
        before, now = start.ids.get(partition[0]), self.ids.get(partition[0])
        return before is None or now is None or before == now


def partition_offsets(topics: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    found = {
        (topic, int(partition)): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
    if not all(type(offset) is int for offset in found.values()):
        raise ValueError("an offset is a whole number")
    return found


def nested(offsets: Offsets) -> dict[str, Any]:
    """{"topicA": {"0": 23}}, in order of topic and number."""
    topics: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics
