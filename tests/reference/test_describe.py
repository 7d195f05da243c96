"""What a cluster tells about itself: DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, DescribeProducers,
ListConfigResources, DescribeQuorum, ApiVersions."""

from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.describe_producers import TopicRequest as ProducersTopic
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from barnabas.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.reference_batches import crafted_batch


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("operations", [False, True])
def test_the_cluster(both: Any, version: int, operations: bool) -> None:
    both.same(DescribeClusterRequest(include_cluster_authorized_operations=operations), version)


@pytest.mark.parametrize("endpoint_type", [0, 2, 3])
def test_endpoint_types(both: Any, endpoint_type: int) -> None:
    both.same(DescribeClusterRequest(endpoint_type=endpoint_type), 1)


def test_fenced_brokers_are_included_on_demand(both: Any) -> None:
    both.same(DescribeClusterRequest(include_fenced_brokers=True), 2)


def partitions(*names: str, limit: int = 2000, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    topics = [TopicRequest(name=name) for name in names]
    return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)


def test_partitions_of_topics(both: Any) -> None:
    both.same(partitions(both.topic(partitions=3), both.topic()), 0)
    name = both.topic()
    both.same(partitions(name, name), 0)


@pytest.mark.parametrize("names", [["not-there"], ["not-there", "another"], ["a/b"], ["not-there", "a/b"]])
def test_partitions_of_what_is_not_there(both: Any, names: list[str]) -> None:
    both.same(partitions(*names), 0)
    both.same(partitions(*names, both.topic()), 0)


def test_an_empty_name_is_no_server_error_here(both: Any) -> None:
    both.same(partitions(""), 0, ignoring=["error_code", "topic_authorized_operations"])
    codes = [answer.topics[0].error_code for answer in both.answers]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_TOPIC_EXCEPTION][: len(codes)]


@pytest.mark.parametrize("limit", [0, -1, 1, 2, 3, 4, 5, 6])
def test_pages(both: Any, limit: int) -> None:
    first, second = sorted([both.topic(partitions=3), both.topic(partitions=2)])
    both.same(partitions(first, second, limit=limit), 0)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3, 7])
def test_cursors(both: Any, index: int) -> None:
    first, second = sorted([both.topic(partitions=3), both.topic(partitions=2)])
    both.same(partitions(first, second, cursor=Cursor(topic_name=first, partition_index=index)), 0)
    both.same(partitions(first, second, cursor=Cursor(topic_name=second, partition_index=index), limit=1), 0)


def test_a_cursor_of_a_topic_that_is_not_asked_for(both: Any) -> None:
    name = both.topic(partitions=2)
    both.same(partitions(name, cursor=Cursor(topic_name="aaa", partition_index=1)), 0)
    both.same(partitions(name, cursor=Cursor(topic_name="zzz", partition_index=1)), 0)
    both.same(partitions(name, cursor=Cursor(topic_name="", partition_index=0)), 0)


def test_all_topics_with_a_page_of_two(both: Any) -> None:
    both.delete_all_topics()
    both.topic(partitions=3)
    both.topic()
    both.same(partitions(limit=2), 0)
    both.same(partitions(), 0)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_log_dirs(both: Any, version: int) -> None:
    topic = both.topic(partitions=2)
    both.fill(topic, 3)
    asked = [DescribableLogDirTopic(topic=topic, partitions=[0, 1, 7]), DescribableLogDirTopic(topic="not-there")]
    both.same(DescribeLogDirsRequest(topics=asked), version)
    both.same(DescribeLogDirsRequest(topics=[]), version)


def test_all_log_dirs(both: Any) -> None:
    both.delete_all_topics()
    both.fill(both.topic(), 2)
    both.same(DescribeLogDirsRequest(topics=None), 4)


def test_producers_of_a_partition(both: Any) -> None:
    topic = both.topic(partitions=2)
    both.same(DescribeProducersRequest(topics=[ProducersTopic(name=topic, partition_indexes=[0, 1])]), 0)
    both.produce(topic, crafted_batch([(b"k", b"v")] * 3, producer_id=4242, producer_epoch=2, base_sequence=0))
    both.same(DescribeProducersRequest(topics=[ProducersTopic(name=topic, partition_indexes=[0, 1])]), 0)


def test_producers_of_what_is_not_there(both: Any) -> None:
    topic = both.topic()
    both.same(DescribeProducersRequest(topics=[ProducersTopic(name="not-there", partition_indexes=[0])]), 0)
    both.same(DescribeProducersRequest(topics=[ProducersTopic(name=topic, partition_indexes=[7, -1])]), 0)
    both.same(DescribeProducersRequest(topics=[ProducersTopic(name="a/b", partition_indexes=[0])]), 0)
    both.same(DescribeProducersRequest(topics=[ProducersTopic(name=topic)]), 0)
    both.same(DescribeProducersRequest(), 0)


@pytest.mark.parametrize("types", [[], [2], [4], [8], [16], [32], [2, 4], [1], [0], [-1], [2, 2]])
def test_config_resources_by_type(both: Any, types: list[int]) -> None:
    both.delete_all_topics()
    both.topic(retention_ms="1")
    both.topic()
    both.same(ListConfigResourcesRequest(resource_types=types), 1, ignoring=["groups"])


def test_config_resources_of_the_first_version(both: Any) -> None:
    both.same(ListConfigResourcesRequest(), 0)


def quorum(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            TopicData(topic_name=name, partitions=[PartitionData(partition_index=index) for index in indexes])
            for name, indexes in topics
        ]
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum(both: Any, version: int) -> None:
    moving = ["leader_epoch", "high_watermark", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp"]
    both.same(quorum(("__cluster_metadata", [0])), version, ignoring=moving)


@pytest.mark.parametrize(
    "topics",
    [
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [])],
        [("other", [0])],
        [("__cluster_metadata", [0]), ("other", [0])],
        [],
    ],
)
def test_what_is_no_quorum(both: Any, topics: list[tuple[str, list[int]]]) -> None:
    both.same(quorum(*topics), 2)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_api_versions_of_the_apis_that_exist(both: Any, version: int) -> None:
    """We list fewer APIs, and finalize a feature only when its APIs exist: those we list have the same ranges."""
    asked = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    both.same(asked, version, ignoring=["api_keys", "finalized_features", "supported_features"])
    if both.ours is not None:
        kafka, ours = ({api.api_key: api for api in answer.api_keys} for answer in both.answers)
        assert {key: ours[key] for key in ours} == {key: kafka[key] for key in ours}


@pytest.mark.parametrize(
    ("name", "software"), [("", ""), ("bad name!", "1"), ("ok", "bad version!"), ("-x", "1"), ("a.b-c", "1.2-3")]
)
def test_names_of_client_software(both: Any, name: str, software: str) -> None:
    both.same(
        ApiVersionsRequest(client_software_name=name, client_software_version=software),
        3,
        ignoring=["api_keys", "finalized_features", "supported_features"],
    )
