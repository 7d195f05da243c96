"""What a controller's listener answers: the controllers instead of the brokers, and the same administration."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.reference_exchange import Side

FEATURES = ["finalized_features", "supported_features"]


@pytest.fixture
def controllers(both: Any) -> Iterator[Any]:
    """As `both`, on the listeners of the controllers."""

    def controller_of(side: Side) -> Side:
        server: Any = side.server
        return Side(side.name, SimpleNamespace(bootstrap_servers=f"127.0.0.1:{server.controller_port}"))

    found = [controller_of(side) for side in both.sides]
    asked = type(both)(found[0], found[1] if len(found) > 1 else None, "controller")
    yield asked
    for side in asked.sides:
        side.close()


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("endpoint_type", [0, 1, 2, 3])
def test_the_controllers_of_the_cluster(controllers: Any, version: int, endpoint_type: int) -> None:
    if version == 0 and endpoint_type != 1:
        return
    controllers.same(DescribeClusterRequest(endpoint_type=endpoint_type), version)


def test_what_may_be_done_with_the_cluster(controllers: Any) -> None:
    controllers.same(DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True), 2)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum(controllers: Any, version: int) -> None:
    moving = ["leader_epoch", "high_watermark", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp"]
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    controllers.same(DescribeQuorumRequest(topics=[topic]), version, ignoring=moving)


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_apis_of_a_controller(controllers: Any, version: int) -> None:
    asked = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    controllers.same(asked, version, ignoring=["api_keys", *FEATURES])
    if controllers.ours is not None:
        kafka, ours = ({api.api_key: api for api in answer.api_keys} for answer in controllers.answers)
        assert {key: ours[key] for key in ours} == {key: kafka[key] for key in ours}
        assert 3 not in ours


def test_clients_get_no_metadata_from_a_controller(controllers: Any) -> None:
    assert controllers.same(MetadataRequest(topics=None), 12) is None


def test_topics_are_created_grown_and_deleted_there_too(both: Any, controllers: Any) -> None:
    name = both.new_name()
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    controllers.same(CreateTopicsRequest(topics=[topic], timeout_ms=15_000), 7)
    both.wait_for_partitions(name, 2)
    grown = CreatePartitionsTopic(name=name, count=3, assignments=None)
    controllers.same(CreatePartitionsRequest(topics=[grown], timeout_ms=15_000), 3)
    both.wait_for_partitions(name, 3)
    controllers.same(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=15_000), 6)


def test_features_are_updated_there_too(controllers: Any) -> None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=26)
    controllers.same(UpdateFeaturesRequest(feature_updates=[update], validate_only=True), 2)
