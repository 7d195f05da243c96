from collections.abc import Callable
from dataclasses import replace

from barnabas.core.controller.view import ImageView, PartitionView
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.metadata import BrokerEndpoint, RegisterBrokerRecord
from barnabas.wire.uuids import Uuid

Cluster = Callable[..., MetadataImage]


def test_brokers_are_listed_by_id_with_the_endpoint_of_the_listener(cluster: Cluster) -> None:
    image = cluster([3, 1, 2], fenced=[2])
    image.replay(RegisterBrokerRecord(broker_id=4, fenced=False, end_points=[BrokerEndpoint(name="OTHER")]))
    view = ImageView(image, "PLAINTEXT")
    assert [(broker.id, endpoint.host) for broker, endpoint in view.alive_brokers()] == [(1, "host1"), (3, "host3")]
    assert [broker.id for broker, _ in view.alive_brokers(fenced=True)] == [1, 2, 3]


def test_the_controller_is_this_node_or_one_that_lives(cluster: Cluster) -> None:
    view = ImageView(cluster([1, 2], fenced=[1]), "PLAINTEXT")
    assert view.controller_id(2) == 2
    assert view.controller_id(1) == 2
    assert ImageView(cluster([]), "PLAINTEXT").controller_id(1) == -1


def test_a_partition_is_seen_with_its_leader_and_its_offline_replicas(cluster: Cluster) -> None:
    image = cluster([1, 2], fenced=[2], topics={"t": [[1, 2, 3]]})
    partition = image.topics["t"].partitions[0]
    assert ImageView(image, "PLAINTEXT").partition(partition) == PartitionView(ErrorCode.NONE, 1, [2, 3])


def test_a_partition_without_leader_or_listener_says_so(cluster: Cluster) -> None:
    image = cluster([1], topics={"t": [[1]]})
    partition = image.topics["t"].partitions[0]
    assert ImageView(image, "OTHER").partition(partition) == PartitionView(ErrorCode.LISTENER_NOT_FOUND, -1, [1])
    leaderless = replace(partition, leader=-1)
    view = ImageView(image, "PLAINTEXT")
    assert view.partition(leaderless) == PartitionView(ErrorCode.LEADER_NOT_AVAILABLE, -1, [])


def test_a_replica_in_a_directory_that_failed_is_offline(cluster: Cluster) -> None:
    image = cluster([1], topics={"t": [[1]]})
    elsewhere = replace(image.topics["t"].partitions[0], directories=[Uuid(b"x" * 16)])
    assert ImageView(image, "PLAINTEXT").partition(elsewhere) == PartitionView(ErrorCode.NONE, 1, [1])
