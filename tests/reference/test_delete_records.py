"""DeleteRecords: the log start moves forward, never past the high watermark."""

from typing import Any

import pytest

from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


def asked(topic: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=15_000)


def earliest(topic: str) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-2)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_before_an_offset_go(both: Any, version: int) -> None:
    topic = both.topic()
    both.fill(topic, 10)
    both.same(asked(topic, 4), version)
    both.same(earliest(topic), 8)


@pytest.mark.parametrize("offset", [0, 10, 11, -1, -2, 9223372036854775807])
def test_how_far_it_may_go(both: Any, offset: int) -> None:
    topic = both.topic()
    both.fill(topic, 10)
    both.same(asked(topic, offset), 2)
    both.same(earliest(topic), 8)


def test_going_back_changes_nothing(both: Any) -> None:
    topic = both.topic()
    both.fill(topic, 10)
    both.same(asked(topic, 6), 2)
    both.same(asked(topic, 3), 2)
    both.same(earliest(topic), 8)


def test_unknown_topics_and_partitions(both: Any) -> None:
    both.same(asked("not-there", 1), 2)
    both.same(asked(both.topic(), 0, partition=7), 2)
    both.same(asked(both.topic(), 0, partition=-1), 2)


def test_a_compacted_topic_refuses(both: Any) -> None:
    topic = both.topic(cleanup_policy="compact")
    both.fill(topic, 3)
    both.same(asked(topic, 1), 2)


def test_compact_and_delete_together_allow(both: Any) -> None:
    topic = both.topic(cleanup_policy="compact,delete")
    both.fill(topic, 3)
    both.same(asked(topic, 1), 2)


def test_an_empty_partition(both: Any) -> None:
    topic = both.topic()
    both.same(asked(topic, 0), 2)
    both.same(asked(topic, -1), 2)
    both.same(asked(topic, 1), 2)
