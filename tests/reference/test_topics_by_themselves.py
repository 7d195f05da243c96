"""Topics that come into being because they are asked for, where deletion is switched off and defaults are not 1; and
features that are really raised. A pair of servers of its own."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.wire.uuids import Uuid
from tests.support import reference
from tests.support.reference_exchange import Side

PROPERTIES = {
    "log.initial.task.delay.ms": "3600000",
    "num.partitions": "3",
    "delete.topic.enable": "false",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
INTERNAL = ["__consumer_offsets", "__transaction_state", "__share_group_state"]
TOPIC = 2


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Any, Any]]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties=PROPERTIES) as kafka, Node(PROPERTIES) as node:
        yield kafka, node


@pytest.fixture
def pair(servers: tuple[Any, Any], both: Any) -> Iterator[Any]:
    sides = [Side("Apache Kafka", servers[0]), Side("Barnabas", servers[1])]
    asked = type(both)(*sides, "pair")
    yield asked
    for side in sides:
        side.close()


def metadata(*names: str, create: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def exists(answer: MetadataResponse) -> bool:
    return all(topic.error_code == ErrorCode.NONE for topic in answer.topics)


@pytest.mark.parametrize("version", [0, 1, 3, 4, 8, 12, 13])
def test_a_topic_that_is_asked_for_comes_with_the_default_number_of_partitions(pair: Any, version: int) -> None:
    request = metadata(pair.new_name("wanted"))
    for side in pair.sides:
        side.wait_until(request, version, exists)
    pair.same(request, version)


def test_ours_is_there_with_the_first_answer(pair: Any) -> None:
    answer = pair.ours.ask(metadata(pair.new_name("at-once")), 12)
    assert len(answer.topics[0].partitions) == 3


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_topics_come_with_partitions_and_configs_of_their_own(pair: Any, name: str) -> None:
    for side in pair.sides:
        side.wait_until(metadata(name), 12, exists)
    pair.same(metadata(name), 12)
    pair.same(DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name=name)]), 4)


@pytest.mark.parametrize("name", ["a b", "", "x" * 250])
def test_what_has_no_proper_name_never_comes(pair: Any, name: str) -> None:
    pair.same(metadata(name), 12)
    pair.same(metadata(name), 12)


def test_what_would_collide_stays_unknown(pair: Any) -> None:
    name = pair.new_name("col.lide")
    for side in pair.sides:
        side.wait_until(metadata(name), 12, exists)
    pair.same(metadata(name.replace(".", "_")), 12)
    pair.same(metadata(name.replace(".", "_")), 12)


def test_not_asked_to_create_nothing_comes(pair: Any) -> None:
    name = pair.new_name("unwanted")
    pair.same(metadata(name, create=False), 12)
    pair.same(metadata(name, create=False), 12)


def test_the_default_number_of_partitions_is_the_brokers(pair: Any) -> None:
    topic = CreatableTopic(name=pair.new_name(), num_partitions=-1, replication_factor=-1)
    answer = pair.same(CreateTopicsRequest(topics=[topic], timeout_ms=15_000), 7)
    assert answer.topics[0].num_partitions == 3


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_where_deletion_is_switched_off_nothing_is_deleted_by_name(pair: Any, version: int) -> None:
    pair.same(DeleteTopicsRequest(topic_names=[pair.topic(), "not-there"], timeout_ms=15_000), version)


def test_nor_by_id(pair: Any) -> None:
    name = pair.topic()

    def asked(side: Side) -> DeleteTopicsRequest:
        topics = [DeleteTopicState(topic_id=side.topic_id(name)), DeleteTopicState(topic_id=Uuid(b"?" * 16))]
        return DeleteTopicsRequest(topics=[*topics, DeleteTopicState(name=name)], timeout_ms=15_000)

    answer = pair.same(asked, 6)
    assert {each.error_code for each in answer.responses} == {ErrorCode.TOPIC_DELETION_DISABLED}


def level_of(side: Side) -> int:
    answer: Any = side.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    return {each.name: each.max_version_level for each in answer.finalized_features}["metadata.version"]


def test_levels_go_up_and_down_until_there_is_no_way_back(pair: Any) -> None:
    def update(level: int, kind: int, version: int) -> None:
        asked = FeatureUpdateKey(feature="metadata.version", max_version_level=level, upgrade_type=kind)
        pair.same(UpdateFeaturesRequest(feature_updates=[asked]), version)
        ours = level_of(pair.ours)
        # Kafka has decided when it answers, and says so elsewhere a moment later.
        deadline = time.monotonic() + 10
        while level_of(pair.kafka) != ours and time.monotonic() < deadline:
            time.sleep(0.05)
        assert level_of(pair.kafka) == ours

    for level, kind in [
        (27, 1),
        (26, 2),
        (25, 3),
        (29, 1),
        (25, 2),
        (26, 2),
        (30, 1),
        (29, 2),
        (29, 3),
        (25, 2),
        (30, 1),
    ]:
        for version in (1, 2):
            update(level, kind, version)
    # Topics at the new level are written in its records and still read by both.
    name = pair.topic(partitions=2)
    pair.same(metadata(name), 13)
