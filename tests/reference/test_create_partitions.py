"""CreatePartitions: a topic may only grow."""

from typing import Any

import pytest

from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def grow(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


def asked(*topics: CreatePartitionsTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), timeout_ms=15_000, validate_only=validate_only)


def metadata(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_topic_grows(both: Any, version: int) -> None:
    name = both.topic()
    both.same(asked(grow(name, 3)), version)
    both.wait_for_partitions(name, 3)
    both.same(metadata(name), 12)


@pytest.mark.parametrize("count", [3, 2, 1, 0, -1])
def test_it_does_not_shrink_or_stay(both: Any, count: int) -> None:
    both.same(asked(grow(both.topic(partitions=3), count)), 3)


@pytest.mark.parametrize(
    "assignments", [[[1]], [[1], [1]], [], [[1], []], [[9], [1]], [[1, 1], [1]], [[1], [1], [1]], [[1, 9], [1, 9]]]
)
def test_assignments_for_the_new_partitions(both: Any, assignments: list[list[int]]) -> None:
    both.same(asked(grow(both.topic(), 3, assignments)), 3)


def test_an_unknown_topic(both: Any) -> None:
    both.same(asked(grow("not-there", 3)), 3)
    both.same(asked(grow("a/b", 3)), 3)


def test_only_validated(both: Any) -> None:
    name = both.topic()
    both.same(asked(grow(name, 3), validate_only=True), 3)
    both.same(metadata(name), 12)
    both.same(asked(grow(name, 1), validate_only=True), 3)


def test_a_topic_twice_in_one_request(both: Any) -> None:
    name = both.topic()
    both.same(asked(grow(name, 2), grow(name, 3)), 3)
    both.same(metadata(name), 12)


def test_nothing_to_do(both: Any) -> None:
    both.same(asked(), 3)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_whose_time_is_up_adds_nothing(both: Any, timeout_ms: int) -> None:
    grown = CreatePartitionsTopic(name=both.topic(), count=2, assignments=None)
    both.same(CreatePartitionsRequest(topics=[grown], timeout_ms=timeout_ms), 3)
    both.same(CreatePartitionsRequest(topics=[grown], timeout_ms=15_000), 3)
