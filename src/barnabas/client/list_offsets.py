"""ListOffsets as question and answer about many partitions of one leader."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.client.connection import Connection
from barnabas.client.errors import Refused, UnsupportedByBroker, known_code
from barnabas.client.metadata import OffsetAt, TopicPartition
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}
# What a timestamp below zero means was brought by these versions.
FIRST_VERSIONS = {-3: 7, -4: 8, -5: 9, -6: 11}


def offsets_request(
    connection: Connection, asked: Mapping[TopicPartition, int], isolation: str, settings: ClientSettings
) -> ListOffsetsRequest:
    version = connection.version_of(ListOffsetsRequest)
    needed = max((FIRST_VERSIONS.get(timestamp, 1) for timestamp in asked.values()), default=1)
    if needed > version:
        raise UnsupportedByBroker(
            f"The broker at {connection.peer} cannot look up such offsets: it speaks ListOffsets up to version "
            f"{version}, and {needed} is needed."
        )
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), timestamp in asked.items():
        entry = topics.setdefault(topic, ListOffsetsTopic(name=topic))
        entry.partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=ISOLATION_LEVELS[isolation],
        topics=list(topics.values()),
        timeout_ms=settings.request_timeout_ms,
    )


def offsets_found(answer: ListOffsetsResponse, *, retriable: Collection[ErrorCode]) -> dict[TopicPartition, OffsetAt]:
    """What was found; partitions with a retriable error are left out, any other error is raised."""
    found: dict[TopicPartition, OffsetAt] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            code = known_code(partition.error_code)
            if not code:
                at = OffsetAt(partition.offset, partition.timestamp, partition.leader_epoch)
                found[topic.name, partition.partition_index] = at
            elif code not in retriable:
                raise Refused(code, f"Offsets of {topic.name}-{partition.partition_index} cannot be listed")
    return found
