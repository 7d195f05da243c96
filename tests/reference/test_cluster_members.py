"""Our nodes and Apache Kafka's in one cluster: voters of both kinds, each of which leads, and brokers of both kinds.

A Kafka node exits at the first wrong byte of the metadata log. So a run in which none does, and after which all logs
hold the same batches, is the proof that both write and read the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from barnabas.wire.messages.metadata import MetadataRequest
from tests.support import reference
from tests.support.replication.watching import batches
from tests.support.waiting import wait_until

OURS, KAFKAS = (1, 2), 3
KAFKAS_BROKER, OUR_BROKER = 101, 102
TRIES_MAX = 12


class Members:
    """Voters 1 and 2 are ours, 3 is Kafka's; broker 101 is Kafka's, 102 is ours."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports = {node_id: reference.free_port() for node_id in (*OURS, KAFKAS, KAFKAS_BROKER, OUR_BROKER)}
        self.nodes = {node_id: self._node(node_id) for node_id in (*OURS, OUR_BROKER)}
        self.kafka = self._kafka(KAFKAS)
        self.kafka_broker = self._kafka(KAFKAS_BROKER)

    def _properties(self, node_id: int) -> dict[str, str]:
        voters = (*OURS, KAFKAS)
        is_voter = node_id in voters
        return {
            "node.id": str(node_id),
            "process.roles": "controller" if is_voter else "broker",
            "listeners": f"{'CONTROLLER' if is_voter else 'PLAINTEXT'}://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{self.ports[each]}" for each in voters),
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{self.ports[each]}" for each in voters),
            "metadata.log.max.record.bytes.between.snapshots": "6000",
        }

    def _node(self, node_id: int) -> Node:
        return Node(
            self._properties(node_id),
            data_dir=self.root / str(node_id),
            cluster_id=reference.CLUSTER_ID,
            timeout_s=90,
        )

    def _kafka(self, node_id: int) -> reference.ApacheKafka:
        return reference.ApacheKafka(
            directory=self.root / f"kafka-{node_id}",
            port=self.ports[node_id],
            controller_port=self.ports[node_id],
            properties=self._properties(node_id),
        )

    def start(self) -> None:
        for kafka in (self.kafka, self.kafka_broker):
            kafka.format()
            kafka.launch()
        for node in self.nodes.values():
            node.start()
        self.kafka_broker.wait_until_ready()

    def close(self) -> None:
        for kafka in (self.kafka, self.kafka_broker):
            kafka.kill()
        for node in self.nodes.values():
            if node.running:
                node.kill()
            node.close()

    def connect(self, node_id: int) -> Connection:
        address = ("127.0.0.1", self.ports[node_id])
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    def quorum(self) -> ResponsePartitionData | None:
        topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        for node_id in (*OURS, KAFKAS):
            try:
                with self.connect(node_id) as connection:
                    answer = connection.request(DescribeQuorumRequest(topics=[topic]))
            except ClientError:
                continue
            if answer.topics and not answer.topics[0].partitions[0].error_code:
                found: ResponsePartitionData = answer.topics[0].partitions[0]
                if found.leader_id >= 0:
                    return found
        return None

    def leader(self, other_than: int | None = None) -> int:
        def found() -> bool:
            self.require_kafka()
            quorum = self.quorum()
            return quorum is not None and quorum.leader_id != other_than

        wait_until(found, "a voter leads")
        quorum = self.quorum()
        return self.leader(other_than) if quorum is None else quorum.leader_id

    def require_kafka(self) -> None:
        for kafka in (self.kafka, self.kafka_broker):
            assert kafka._process is None or kafka.running, kafka.log_file.read_text()[-4000:]

    def create(self, topic: str, by: int) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=4, replication_factor=1)
        with self.connect(by) as connection:
            (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert created.error_code == 0, created.error_message

    def seen(self, by: int) -> tuple[list[int], set[str]]:
        """Brokers and topics."""
        with self.connect(by) as connection:
            answer = connection.request(MetadataRequest(topics=None))
        return sorted(each.node_id for each in answer.brokers), {each.name for each in answer.topics if each.name}

    def wait_seen(self, brokers: list[int], topics: set[str], by: int) -> None:
        def agrees() -> bool:
            self.require_kafka()
            found = self.seen(by)
            return found[0] == brokers and topics <= found[1]

        wait_until(agrees, f"node {by} knows brokers {brokers} and topics {sorted(topics)}")

    def directories(self) -> list[Path]:
        ours = [self.root / str(node_id) for node_id in self.nodes]
        return [each / "__cluster_metadata-0" for each in (*ours, self.kafka.data_dir, self.kafka_broker.data_dir)]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    reason = reference.available()
    if reason is not None:
        pytest.skip(reason)
    members = Members(tmp_path_factory.mktemp("members"))
    try:
        members.start()
        yield members
    finally:
        members.close()


@pytest.mark.timeout(300)
def test_each_kind_leads_each_kind_of_broker_serves_and_no_kafka_exits(members: Members) -> None:
    both, topics = [KAFKAS_BROKER, OUR_BROKER], set[str]()

    def create(name: str, by: int) -> None:
        members.create(name, by)
        topics.add(name)

    create("by-kafkas-broker", KAFKAS_BROKER)
    create("by-our-broker", OUR_BROKER)
    for broker in both:
        members.wait_seen(both, topics, by=broker)

    for _ in range(TRIES_MAX):
        leader = members.leader()
        if leader == KAFKAS:
            break
        members.nodes[leader].stop()
        members.leader(other_than=leader)
        members.nodes[leader].start()
    assert members.leader() == KAFKAS
    create("kafka-leads-1", KAFKAS_BROKER)
    create("kafka-leads-2", OUR_BROKER)
    members.nodes[OUR_BROKER].restart()
    members.wait_seen(both, topics, by=OUR_BROKER)

    members.kafka.kill()
    members.leader(other_than=KAFKAS)
    create("ours-leads-1", KAFKAS_BROKER)
    create("ours-leads-2", OUR_BROKER)
    members.kafka_broker.stop()
    members.wait_seen([OUR_BROKER], topics, by=OUR_BROKER)
    # Kafka's voter comes back with nothing, and begins with a snapshot of our leader's.
    wait_until(lambda: any_snapshot(members), "a snapshot of ours")
    shutil.rmtree(members.kafka.data_dir)
    members.kafka.format()
    members.kafka.launch()
    members.kafka_broker.launch()
    members.kafka_broker.wait_until_ready()
    for broker in both:
        members.wait_seen(both, topics, by=broker)
    wait_until(lambda: lag_of(members, KAFKAS) == 0, "Kafka's voter has caught up")
    members.require_kafka()

    logs = [batches(directory) for directory in members.directories()]
    for log in logs[1:]:
        common = log.keys() & logs[0].keys()
        assert common
        assert all(log[offset] == logs[0][offset] for offset in common)


def any_snapshot(members: Members) -> bool:
    found = [path.name for node_id in OURS for path in members.directories()[node_id - 1].glob("*.checkpoint")]
    return any(not name.startswith("00000000000000000000-") for name in found)


def lag_of(members: Members, voter: int) -> int:
    quorum = members.quorum()
    if quorum is None:
        return -1
    ends = {each.replica_id: each.log_end_offset for each in quorum.current_voters}
    return max(ends[quorum.leader_id] - 1 - ends[voter], 0)
