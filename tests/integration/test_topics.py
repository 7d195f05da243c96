"""Topics come, grow and go on a real node, and what was answered is there after a restart and after a kill."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import Connection
from barnabas.testing import Node
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.connections import connect_to
from tests.support.reference import free_port
from tests.support.waiting import wait_until


@pytest.fixture
def node(barnabas: Node) -> Node:
    return barnabas


@pytest.fixture
def connection(node: Node) -> Iterator[Connection]:
    with node.connect() as connection:
        yield connection


def topic(name: str, partitions: int = 1, **configs: str) -> CreatableTopic:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given)


def create(connection: Connection, *topics: CreatableTopic) -> list[Any]:
    results: list[Any] = connection.request(CreateTopicsRequest(topics=list(topics), timeout_ms=15_000)).topics
    return results


def partitions_of(connection: Connection) -> dict[str, int]:
    answer = connection.request(MetadataRequest(topics=None))
    assert all(part.error_code == 0 and part.leader_id == 1 for each in answer.topics for part in each.partitions)
    return {each.name: len(each.partitions) for each in answer.topics}


def directories(node: Node) -> set[str]:
    return {path.name for path in node.data_dir.iterdir() if path.is_dir() and not path.name.startswith("__cluster")}


def test_a_topic_comes_grows_and_goes(node: Node, connection: Connection) -> None:
    (created,) = create(connection, topic("orders", 2))
    assert (created.error_code, created.num_partitions, created.replication_factor) == (0, 2, 1)
    assert partitions_of(connection) == {"orders": 2}
    assert {"orders-0", "orders-1"} <= directories(node)
    grown = CreatePartitionsTopic(name="orders", count=4, assignments=None)
    assert connection.request(CreatePartitionsRequest(topics=[grown], timeout_ms=15_000)).results[0].error_code == 0
    assert partitions_of(connection) == {"orders": 4}
    by_id = DeleteTopicState(topic_id=created.topic_id)
    assert connection.request(DeleteTopicsRequest(topics=[by_id], timeout_ms=15_000)).responses[0].name == "orders"
    assert partitions_of(connection) == {}
    assert not {name for name in directories(node) if name.startswith("orders-") and not name.endswith("-delete")}


def test_a_topic_made_anew_is_another_one(connection: Connection) -> None:
    (first,) = create(connection, topic("again"))
    connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=15_000))
    (second,) = create(connection, topic("again", 2))
    assert second.error_code == 0
    assert second.topic_id != first.topic_id
    by_id = [MetadataRequestTopic(topic_id=each.topic_id, name=None) for each in (first, second)]
    answer = connection.request(MetadataRequest(topics=by_id))
    assert {each.name: each.error_code for each in answer.topics} == {None: ErrorCode.UNKNOWN_TOPIC_ID, "again": 0}


def test_configs_and_assignments_are_kept(connection: Connection) -> None:
    assigned = CreatableTopic(
        name="assigned",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in (1, 0)],
    )
    results = create(connection, assigned, topic("kept", retention_ms="1234"))
    assert [each.error_code for each in results] == [0, 0]
    told = {config.name: (config.value, config.config_source) for config in results[1].configs}
    assert told["retention.ms"] == ("1234", 1)
    assert partitions_of(connection) == {"assigned": 2, "kept": 1}
    resource = DescribeConfigsResource(resource_type=2, resource_name="kept", configuration_keys=["retention.ms"])
    described = connection.request(DescribeConfigsRequest(resources=[resource])).results[0].configs
    assert [(config.name, config.value) for config in described] == [("retention.ms", "1234")]


def test_good_and_bad_topics_in_one_request(connection: Connection) -> None:
    results = create(connection, topic("good"), topic("no/good"), topic("none", 0), topic("twice"), topic("twice", 2))
    assert {each.name: ErrorCode(each.error_code) for each in results} == {
        "good": ErrorCode.NONE,
        "no/good": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "none": ErrorCode.INVALID_PARTITIONS,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert partitions_of(connection) == {"good": 1}


def test_only_validated_topics_do_not_exist(connection: Connection) -> None:
    request = CreateTopicsRequest(topics=[topic("maybe", 3)], validate_only=True)
    assert connection.request(request).topics[0].num_partitions == 3
    assert partitions_of(connection) == {}


@pytest.mark.parametrize("version", [0, 4, 12, 13])
def test_a_topic_that_is_asked_for_is_there_at_once(connection: Connection, version: int) -> None:
    name = f"asked-for-{version}"
    answer = connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), version)
    assert [(part.error_code, part.leader_id) for part in answer.topics[0].partitions] == [(0, 1)]


def test_nobody_creates_a_topic_twice(node: Node) -> None:
    """Ten connections want the same topic at the same moment: one makes it, and all see the same."""
    ids: list[Any] = []
    start = threading.Barrier(10)

    def ask() -> None:
        with node.connect() as connection:
            start.wait()
            answer = connection.request(MetadataRequest(topics=[MetadataRequestTopic(name="rush")]))
            ids.append((answer.topics[0].error_code, answer.topics[0].topic_id))

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 10
    assert len(set(ids)) == 1
    assert ids[0][0] == 0


def test_a_thousand_topics_in_one_request(connection: Connection) -> None:
    results = create(connection, *(topic(f"many-{number}") for number in range(1000)))
    assert {each.error_code for each in results} == {0}
    assert len(partitions_of(connection)) == 1000
    pages = connection.request(DescribeTopicPartitionsRequest(response_partition_limit=400))
    assert len(pages.topics) == 400
    assert pages.next_cursor is not None
    names = [DeleteTopicState(name=f"many-{number}") for number in range(1000)]
    deleted = connection.request(DeleteTopicsRequest(topics=names, timeout_ms=15_000)).responses
    assert {each.error_code for each in deleted} == {0}
    assert partitions_of(connection) == {}


def test_a_request_for_too_many_partitions_is_refused_whole(connection: Connection) -> None:
    results = create(connection, topic("small"), topic("huge", 2**31 - 1))
    assert {each.error_code for each in results} == {ErrorCode.POLICY_VIOLATION}
    assert partitions_of(connection) == {}


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_answered_is_there_after_a_restart(own_node: Node, how: str) -> None:
    with own_node.connect() as connection:
        create(connection, topic("kept", 3, retention_ms="1234"), topic("gone"), topic("grown"))
        connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=15_000))
        grown = CreatePartitionsTopic(name="grown", count=2, assignments=None)
        connection.request(CreatePartitionsRequest(topics=[grown], timeout_ms=15_000))
        before = connection.request(MetadataRequest(topics=None))
    getattr(own_node, how)()
    own_node.start()
    with own_node.connect() as connection:
        assert partitions_of(connection) == {"kept": 3, "grown": 2}
        after = connection.request(MetadataRequest(topics=None))
        assert {each.name: each.topic_id for each in after.topics} == {
            each.name: each.topic_id for each in before.topics
        }
        resource = DescribeConfigsResource(resource_type=2, resource_name="kept", configuration_keys=["retention.ms"])
        assert connection.request(DescribeConfigsRequest(resources=[resource])).results[0].configs[0].value == "1234"
    wait_until(lambda: not {name for name in directories(own_node) if name.startswith("gone")})


@pytest.fixture
def older_node(tmp_path: Path) -> Iterator[Node]:
    """One whose directory was formatted at the level of Kafka 4.0."""
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:0,CONTROLLER://:0\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={tmp_path}/data\n"
    )
    tool = [sys.executable, "-m", "barnabas", "storage", "format", "--standalone", "--release-version", "4.0"]
    subprocess.run(
        [*tool, "-t", "QmFybmFiYXNSZWZlcmVuYw", "-c", str(properties)], check=True, capture_output=True, timeout=30
    )
    with Node(data_dir=tmp_path / "data") as node:
        yield node


def test_a_raised_level_stays_raised(older_node: Node) -> None:
    own_node = older_node

    def level() -> int:
        asked = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        with own_node.connect() as connection:
            features = connection.request(asked).finalized_features
        return next(each.max_version_level for each in features if each.name == "metadata.version")

    assert level() == 25
    with own_node.connect() as connection:
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
        assert connection.request(UpdateFeaturesRequest(feature_updates=[update])).error_code == 0
        assert create(connection, topic("after", 2))[0].error_code == 0
    assert level() == 30
    own_node.restart()
    assert level() == 30
    with own_node.connect() as connection:
        assert partitions_of(connection) == {"after": 2}


def test_brokers_are_told_with_the_listener_that_was_asked(own_node: Node) -> None:
    with own_node.connect() as connection:
        broker = connection.request(DescribeClusterRequest()).brokers[0]
    assert (broker.broker_id, broker.port) == (1, own_node.port)
    with connect_to(own_node.controller_port) as connection:
        controller = connection.request(DescribeClusterRequest(endpoint_type=2)).brokers[0]
        assert (controller.broker_id, controller.port) == (1, own_node.controller_port)
        quorum = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        answer = connection.request(DescribeQuorumRequest(topics=[quorum]))
    partition = answer.topics[0].partitions[0]
    assert (partition.leader_id, partition.high_watermark > 0) == (1, True)
    assert partition.current_voters[0].log_end_offset == partition.high_watermark
    assert answer.nodes[0].listeners[0].port == own_node.controller_port


def test_each_listener_tells_its_own_address() -> None:
    outside = free_port()
    config = {
        "listeners": f"INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:{outside},CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with Node(config) as node:
        for port in (node.port, outside, node.port):
            with connect_to(port) as connection:
                metadata = connection.request(MetadataRequest(topics=[]))
                cluster = connection.request(DescribeClusterRequest())
            assert [broker.port for broker in metadata.brokers] == [broker.port for broker in cluster.brokers] == [port]


def test_a_topic_that_was_just_deleted_is_told_to_be_gone_before_it_comes_again(
    node: Node, connection: Connection
) -> None:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="gone-and-back")], allow_auto_topic_creation=True)
    [first] = connection.request(wanted, 12).topics
    assert first.error_code == 0
    connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone-and-back")], timeout_ms=15_000), 6)
    [gone] = connection.request(wanted, 12).topics
    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wait_until(lambda: connection.request(wanted, 12).topics[0].error_code == 0)
    assert connection.request(wanted, 12).topics[0].topic_id != first.topic_id
