"""Eligible leader replicas (KIP-966): the same story under Apache Kafka's controller and under ours, with our brokers.

Kafka's cluster is formatted as Kafka does it by default, with all its features: our brokers are members of it. Ours has
the feature raised by UpdateFeatures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings
from barnabas.core.metadata.records import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.testing import Node
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support import reference
from tests.support.waiting import wait_until

CONTROLLER, ANNA, BERT, WITNESS = 1, 101, 102, 103
TOPIC_RESOURCE, UPGRADE = 2, 1


class Seen(NamedTuple):
    leader: int
    in_sync: list[int]
    eligible: list[int]
    last_known: list[int]


class Brokers:
    """Three of our brokers, one of which only tells what it sees."""

    def __init__(self, root: Path, controller_port: int) -> None:
        self._controller_port = controller_port
        self.nodes = {node_id: self._node(root, node_id) for node_id in (ANNA, BERT, WITNESS)}

    def properties(self, node_id: int) -> dict[str, str]:
        return {
            "node.id": str(node_id),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{reference.free_port()}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "broker.heartbeat.interval.ms": "300",
        }

    def _node(self, root: Path, node_id: int) -> Node:
        return Node(
            self.properties(node_id),
            data_dir=root / str(node_id),
            cluster_id=reference.CLUSTER_ID,
            timeout_s=90,
        )

    def close(self) -> None:
        for node in self.nodes.values():
            if node.running:
                node.kill()
            node.close()

    def connect(self) -> Connection:
        address = ("127.0.0.1", self.nodes[WITNESS].port)
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    def seen(self) -> Seen:
        with self.connect() as connection:
            answer = connection.request(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")]))
        (each,) = answer.topics[0].partitions
        eligible, last_known = each.eligible_leader_replicas or [], each.last_known_elr or []
        return Seen(each.leader_id, sorted(each.isr_nodes), sorted(eligible), list(last_known))

    def wait_seen(self, wanted: Seen, after: str) -> None:
        found: list[Seen] = []

        def is_seen() -> bool:
            found[:] = [self.seen()]
            return found == [wanted]

        try:
            wait_until(is_seen, after)
        except AssertionError as error:
            raise AssertionError(f"{error}: {found[0]} instead of {wanted}") from None

    def create_topic(self) -> None:
        wanted = CreatableTopic(
            name="orders",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[ANNA, BERT])],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        with self.connect() as connection:
            (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert created.error_code == 0, created.error_message

    def finalized(self) -> int:
        with self.connect() as connection:
            answer = connection.request(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
        assert answer.error_code == 0
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        return levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0)

    def raise_feature(self) -> None:
        update = FeatureUpdateKey(feature=ELIGIBLE_LEADER_REPLICAS_VERSION, max_version_level=1, upgrade_type=UPGRADE)
        with self.connect() as connection:
            answer = connection.request(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=30_000))
        assert answer.error_code == 0, answer.error_message

    def require_one_in_sync(self) -> None:
        change = AlterableConfig(name="min.insync.replicas", config_operation=0, value="1")
        asked = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="orders", configs=[change])
        with self.connect() as connection:
            (answer,) = connection.request(IncrementalAlterConfigsRequest(resources=[asked])).responses
        assert answer.error_code == 0, answer.error_message


def controller_properties(port: int) -> dict[str, str]:
    return {
        "node.id": str(CONTROLLER),
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "broker.session.timeout.ms": "3000",
    }


def kafkas_controller(root: Path, port: int) -> Callable[[], None]:
    kafka = reference.ApacheKafka(
        directory=root / "kafka", port=port, controller_port=port, properties=controller_properties(port)
    )
    kafka.format()
    kafka.launch()
    return kafka.kill


def our_controller(root: Path, port: int) -> Callable[[], None]:
    node = Node(
        controller_properties(port), data_dir=root / "controller", cluster_id=reference.CLUSTER_ID, timeout_s=90
    )
    node.start()

    def close() -> None:
        node.kill()
        node.close()

    return close


@pytest.fixture(params=[kafkas_controller, our_controller])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    reason = reference.available()
    if reason is not None:
        pytest.skip(reason)
    port = reference.free_port()
    close = request.param(tmp_path, port)
    brokers = Brokers(tmp_path, port)
    try:
        for node in brokers.nodes.values():
            node.start()
        yield brokers
    finally:
        brokers.close()
        close()


@pytest.mark.timeout(300)
def test_who_may_lead_when_nobody_is_in_sync(brokers: Brokers) -> None:
    anna, bert = brokers.nodes[ANNA], brokers.nodes[BERT]
    if brokers.finalized() == 0:
        brokers.raise_feature()
    wait_until(lambda: brokers.finalized() == 1, "eligible leaders are tracked")
    brokers.create_topic()
    brokers.wait_seen(Seen(ANNA, [ANNA, BERT], [], []), "created")
    anna.stop()
    brokers.wait_seen(Seen(BERT, [BERT], [ANNA], []), "Anna has stopped, and has all that is committed")
    bert.stop()
    brokers.wait_seen(Seen(-1, [], [ANNA, BERT], [BERT]), "Bert has stopped too")
    anna.start()
    brokers.wait_seen(Seen(ANNA, [ANNA], [BERT], []), "Anna is back")
    anna.kill()
    brokers.wait_seen(Seen(-1, [], [ANNA, BERT], [ANNA]), "Anna was killed")
    anna.start()
    brokers.wait_seen(Seen(-1, [], [BERT], [ANNA]), "Anna may have lost what was committed")
    bert.start()
    brokers.wait_seen(Seen(BERT, [ANNA, BERT], [], []), "Bert leads, and Anna has caught up with him")
    bert.stop()
    brokers.wait_seen(Seen(ANNA, [ANNA], [BERT], []), "Bert has stopped again")
    brokers.require_one_in_sync()
    brokers.wait_seen(Seen(ANNA, [ANNA], [], []), "one is enough now")
