"""DeleteTopics, by name and by id."""

from typing import Any

import pytest

from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.uuids import ZERO_UUID, Uuid

UNKNOWN_ID = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAg")


def by_name(*names: str | None) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=15_000)


def by_id(*ids: Uuid, name: str | None = None) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=id) for id in ids], timeout_ms=15_000)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_a_topic_is_deleted_by_name_in_older_versions(both: Any, version: int) -> None:
    both.same(DeleteTopicsRequest(topic_names=[both.topic(), "not-there"], timeout_ms=15_000), version)


def test_a_topic_is_deleted_by_name(both: Any) -> None:
    name = both.topic(partitions=3)
    both.same(by_name(name), 6)
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    both.same(metadata, 12)
    both.same(by_name(name), 6)


def test_a_topic_is_deleted_by_id(both: Any) -> None:
    name = both.topic()
    both.same(lambda side: by_id(side.topic_id(name)), 6)
    both.same(by_name(name), 6)


def test_an_unknown_id_is_told_apart_from_an_unknown_name(both: Any) -> None:
    both.same(by_id(UNKNOWN_ID), 6)
    both.same(by_name("not-there"), 6)


def test_neither_name_nor_id(both: Any) -> None:
    both.same(by_id(ZERO_UUID), 6)


def test_both_name_and_id(both: Any) -> None:
    name = both.topic()
    both.same(lambda side: by_id(side.topic_id(name), name=name), 6)
    both.same(by_id(UNKNOWN_ID, name=name), 6)
    both.same(by_name(name), 6)


def test_a_name_twice(both: Any) -> None:
    name = both.topic()
    both.same(by_name(name, name), 6)
    both.same(by_name(name), 6)


def test_an_id_twice(both: Any) -> None:
    name = both.topic()
    both.same(lambda side: by_id(side.topic_id(name), side.topic_id(name)), 6)
    both.same(by_name(name), 6)


def test_the_same_topic_by_name_and_by_id(both: Any) -> None:
    name = both.topic()

    def asked(side: Any) -> DeleteTopicsRequest:
        states = [DeleteTopicState(name=name), DeleteTopicState(topic_id=side.topic_id(name))]
        return DeleteTopicsRequest(topics=states, timeout_ms=15_000)

    both.same(asked, 6)
    both.same(by_name(name), 6)


def test_nothing_to_delete(both: Any) -> None:
    both.same(by_name(), 6)


def test_names_that_cannot_exist(both: Any) -> None:
    both.same(by_name("", "a/b", "."), 6)


def test_the_good_ones_go_beside_the_bad(both: Any) -> None:
    name = both.topic()
    both.same(by_name("not-there", name), 6)


def test_a_name_can_be_used_again_at_once(both: Any) -> None:
    name = both.topic(partitions=2)
    both.same(by_name(name), 6)
    for side in both.sides:
        side.create_topic(name, 3)
    both.same(MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False), 12)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_whose_time_is_up_deletes_nothing(both: Any, timeout_ms: int) -> None:
    topics = [DeleteTopicState(name=both.topic()), DeleteTopicState(name="not-there")]
    both.same(DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms), 6)
    both.same(DeleteTopicsRequest(topics=topics, timeout_ms=15_000), 6)
