"""OffsetForLeaderEpoch: where an epoch ended."""

from typing import Any

import pytest

from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def asked(topic: str, epoch: int, *, current: int = -1, partition: int = 0, replica: int = -1) -> Any:
    parts = [OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)]
    return OffsetForLeaderEpochRequest(replica_id=replica, topics=[OffsetForLeaderTopic(topic=topic, partitions=parts)])


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("epoch", [0, 1, -1, 7])
def test_epochs_of_a_partition(both: Any, version: int, epoch: int) -> None:
    topic = both.topic()
    both.fill(topic, 3)
    both.same(asked(topic, epoch), version)


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_an_empty_partition(both: Any, epoch: int) -> None:
    both.same(asked(both.topic(), epoch), 4)


@pytest.mark.parametrize("current", [0, 1, 7, -5])
def test_the_current_epoch_must_agree(both: Any, current: int) -> None:
    topic = both.topic()
    both.fill(topic, 3)
    both.same(asked(topic, 0, current=current), 4)


def test_unknown_topics_and_partitions(both: Any) -> None:
    both.same(asked("not-there", 0), 4)
    both.same(asked(both.topic(), 0, partition=9), 4)


@pytest.mark.parametrize("replica", [-2, 1, 5])
def test_replica_ids(both: Any, replica: int) -> None:
    topic = both.topic()
    both.fill(topic, 3)
    both.same(asked(topic, 0, replica=replica), 4)


def test_nothing_asked(both: Any) -> None:
    both.same(OffsetForLeaderEpochRequest(topics=[]), 4)
