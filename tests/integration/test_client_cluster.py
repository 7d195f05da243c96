"""The client's cluster on a real node: found, lost, found again, and quick to start."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

ROUND_TRIP = """
import sys
from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
with Cluster(ClientSettings.from_properties({}, bootstrap_servers=sys.argv[1])) as cluster:
    assert "quick" in cluster.metadata().topics
for module in ("uvloop", "asyncio", "aiokafka", "ssl", "cramjam", "hashlib", "threading"):
    assert module not in sys.modules, module
"""


def settings(node: Node, **properties: str) -> ClientSettings:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientSettings.from_properties(given, bootstrap_servers=node.bootstrap_servers)


def test_topics_leaders_offsets_and_coordinators_are_found(node: Node, log_client: type) -> None:
    node.create_topic("found", partitions=2)
    with Cluster(settings(node)) as cluster:
        found = cluster.metadata()
        assert found.cluster_id == node.cluster_id
        assert found.topics["found"].error is ErrorCode.NONE
        assert {index: each.leader for index, each in found.topics["found"].partitions.items()} == {0: 1, 1: 1}
        assert cluster.metadata(["missing"]).topics["missing"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        offsets = cluster.list_offsets({("found", 0): -1, ("found", 1): -2})
        assert {partition: at.offset for partition, at in offsets.items()} == {("found", 0): 0, ("found", 1): 0}
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        assert cluster.ask_coordinator("group", "g", request).groups[0].error_code == 0
        with pytest.raises(Refused, match="Topic missing does not exist"):
            cluster.list_offsets({("missing", 0): -1})


def test_controllers_are_asked_at_their_own_listener(node: Node) -> None:
    given = ClientSettings.from_properties({}, bootstrap_servers=f"127.0.0.1:{node.controller_port}")
    with Cluster(given, controllers=True) as cluster:
        partitions = [PartitionData(partition_index=0)]
        topics = [TopicData(topic_name="__cluster_metadata", partitions=partitions)]
        answer = cluster.ask_controller(DescribeQuorumRequest(topics=topics))
        assert answer.topics[0].partitions[0].leader_id == 1


def test_a_node_that_comes_back_is_asked_again() -> None:
    with Node() as node, Cluster(settings(node)) as cluster:
        cluster.metadata()
        node.kill()
        restart = threading.Thread(target=node.restart)
        restart.start()
        assert cluster.ask(ListGroupsRequest()).error_code == 0
        restart.join()


def test_a_tool_that_asks_for_metadata_starts_quickly_and_loads_little(node: Node) -> None:
    node.create_topic("quick")
    subprocess.run([sys.executable, "-c", ROUND_TRIP, node.bootstrap_servers], check=True)  # the bytecode is there
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", ROUND_TRIP, node.bootstrap_servers], check=True)
    assert time.perf_counter() - began < 5  # 0.2 s on a quiet machine
