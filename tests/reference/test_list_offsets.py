"""ListOffsets: earliest, latest, greatest time, by time, and what is refused."""

from typing import Any

import pytest

from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.reference_batches import crafted_batch

BEGAN = 1_700_000_000_000


def asked(topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, replica: int = -1, level: int = 0) -> Any:
    parts = [ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)]
    topics = [ListOffsetsTopic(name=topic, partitions=parts)]
    return ListOffsetsRequest(replica_id=replica, isolation_level=level, topics=topics)


def three_batches(both: Any) -> str:
    """Times 0,1,2 / 1000,1001 / 500 after the beginning: the greatest time is not the last."""
    topic: str = both.topic()
    both.produce(topic, crafted_batch([(b"k", b"v")] * 3, base_timestamp=BEGAN))
    both.produce(topic, crafted_batch([(b"k", b"v")] * 2, base_timestamp=BEGAN + 1000))
    both.produce(topic, crafted_batch([(b"k", b"v")], base_timestamp=BEGAN + 500))
    return topic


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("timestamp", [-1, -2])
def test_earliest_and_latest_in_every_version(both: Any, version: int, timestamp: int) -> None:
    both.same(asked(three_batches(both), timestamp), version)


@pytest.mark.parametrize("version", [1, 6, 7, 8, 9, 10, 11])
@pytest.mark.parametrize("timestamp", [-3, -4, -5, -6, -7, -100])
def test_special_times_per_version(both: Any, version: int, timestamp: int) -> None:
    both.same(asked(three_batches(both), timestamp), version)


@pytest.mark.parametrize("after", [-1, 0, 1, 2, 3, 499, 500, 501, 1000, 1001, 1002, 5_000_000])
def test_by_time(both: Any, after: int) -> None:
    both.same(asked(three_batches(both), BEGAN + after), 8)


@pytest.mark.parametrize("timestamp", [-1, -2, -3, -4, -5, 0])
def test_an_empty_partition(both: Any, timestamp: int) -> None:
    both.same(asked(both.topic(), timestamp), 9)


@pytest.mark.parametrize("version", [1, 8, 11])
def test_unknown_partitions(both: Any, version: int) -> None:
    both.same(asked("not-there", -1), version)
    both.same(asked(both.topic(), -1, partition=5), version)
    both.same(asked(both.topic(), -1, partition=-1), version)


@pytest.mark.parametrize("epoch", [-1, 0, 1, 7])
@pytest.mark.parametrize("timestamp", [-1, BEGAN])
def test_leader_epochs_must_agree(both: Any, epoch: int, timestamp: int) -> None:
    both.same(asked(three_batches(both), timestamp, epoch=epoch), 8)


def test_read_committed_reaches_the_last_stable_offset(both: Any) -> None:
    both.same(asked(three_batches(both), -1, level=1), 8)


@pytest.mark.parametrize("replica", [-2, 0, 1, 5])
def test_replica_ids(both: Any, replica: int) -> None:
    both.same(asked(three_batches(both), -1, replica=replica), 8)


def test_a_partition_twice_is_refused(both: Any) -> None:
    topic = both.topic()
    request = asked(topic, -1)
    request.topics[0].partitions.append(ListOffsetsPartition(partition_index=0, timestamp=-2))
    both.same(request, 8)


def test_the_end_after_records_were_deleted(both: Any) -> None:
    topic = three_batches(both)
    both.delete_records(topic, 4)
    for timestamp in (-1, -2, -3, -4, BEGAN, BEGAN + 1000, BEGAN + 2000):
        both.same(asked(topic, timestamp), 8)
