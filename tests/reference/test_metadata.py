"""Metadata: brokers, topics and their partitions, by name and by id."""

from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.uuids import ZERO_UUID, Uuid

UNKNOWN_ID = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAg")
VERSIONS = list(range(14))


def named(*names: str | None, create: bool = False, **rest: Any) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, **rest)


def old(request: MetadataRequest, version: int) -> MetadataRequest:
    if version < 4:
        request.allow_auto_topic_creation = True
    return request


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_by_name_in_every_version(both: Any, version: int) -> None:
    both.same(old(named(both.topic(partitions=3)), version), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_in_every_version(both: Any, version: int) -> None:
    both.same(old(named("not-there"), version), version)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_no_topics_give_the_brokers_only(both: Any, version: int) -> None:
    both.same(old(named(), version), version)


@pytest.mark.parametrize("version", [0, 1, 9, 12, 13])
def test_all_topics(both: Any, version: int) -> None:
    both.delete_all_topics()
    both.topic(partitions=2)
    both.topic()
    both.same(
        old(MetadataRequest(topics=[] if version == 0 else None, allow_auto_topic_creation=False), version), version
    )


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "x" * 250, "not-there"])
def test_names_that_cannot_be_and_topics_that_are_not_made(both: Any, name: str, create: bool) -> None:
    both.same(named(name, create=create), 12)


def test_good_and_bad_names_together(both: Any) -> None:
    both.same(named(both.topic(), "a/b", "not-there"), 12)


def test_a_name_twice(both: Any) -> None:
    name = both.topic()
    both.same(named(name, name), 12)


@pytest.mark.parametrize("version", [10, 12, 13])
def test_by_id(both: Any, version: int) -> None:
    name = both.topic()

    def asked(side: Any) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=side.topic_id(name), name=None)], allow_auto_topic_creation=False
        )

    both.same(asked, version)


@pytest.mark.parametrize("version", [12, 13])
def test_an_unknown_id(both: Any, version: int) -> None:
    topics = [MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)]
    both.same(MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)


@pytest.mark.parametrize("version", [12, 13])
def test_neither_name_nor_id_is_refused_by_both_and_by_us_with_the_right_code(both: Any, version: int) -> None:
    topics = [MetadataRequestTopic(topic_id=ZERO_UUID, name=None), MetadataRequestTopic(name="beside")]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    both.same(request, version, ignoring=["error_code"])
    codes = [{topic.error_code for topic in answer.topics} for answer in both.answers]
    assert codes == [{ErrorCode.UNKNOWN_SERVER_ERROR}, {ErrorCode.INVALID_REQUEST}][: len(codes)]


def test_name_and_id_together(both: Any) -> None:
    name = both.topic()

    def asked(side: Any) -> MetadataRequest:
        topics = [MetadataRequestTopic(topic_id=side.topic_id(name), name=name)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    both.same(asked, 12)
    both.same(MetadataRequest(topics=[MetadataRequestTopic(topic_id=UNKNOWN_ID, name=name)]), 12)


def test_ids_and_names_mixed(both: Any) -> None:
    first, second = both.topic(), both.topic()

    def asked(side: Any) -> MetadataRequest:
        topics = [MetadataRequestTopic(name=first), MetadataRequestTopic(topic_id=side.topic_id(second), name=None)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    both.same(asked, 12)


@pytest.mark.parametrize("version", [8, 10, 11, 12, 13])
def test_authorized_operations(both: Any, version: int) -> None:
    cluster = {"include_cluster_authorized_operations": True} if version <= 10 else {}
    both.same(named(both.topic(), include_topic_authorized_operations=True, **cluster), version)
