"""A cluster of our broker and Apache Kafka's under our controller, for tests of both together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support import reference
from tests.support.replication.watching import batches, describe, wait_in_sync
from tests.support.waiting import wait_until

CONTROLLER, KAFKAS, OURS = 1, 101, 102
BOTH = [KAFKAS, OURS]


class Mixed:
    """The controller is ours, broker 101 is Kafka's, 102 is ours. It is watched as a `Cluster` is."""

    def __init__(self, root: Path, properties: Mapping[str, str] | None = None) -> None:
        """`properties` are added to those of each node."""
        self.root = root
        self._extra = dict(properties or {})
        self.broker_ids = BOTH
        self.ports = {node_id: reference.free_port() for node_id in (CONTROLLER, *BOTH)}
        self.controller = self._node(CONTROLLER)
        self.kafka = reference.ApacheKafka(
            directory=root / "kafka",
            port=self.ports[KAFKAS],
            properties=self._properties(KAFKAS),
        )
        self.nodes: dict[int, Node | reference.ApacheKafka] = {KAFKAS: self.kafka, OURS: self._node(OURS)}

    def _properties(self, node_id: int) -> dict[str, str]:
        is_controller = node_id == CONTROLLER
        return {
            "node.id": str(node_id),
            "process.roles": "controller" if is_controller else "broker",
            "listeners": f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self.ports[CONTROLLER]}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.ports[CONTROLLER]}",
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "300",
            "auto.leader.rebalance.enable": "false",
            "min.insync.replicas": "1",
            **self._extra,
        }

    def _node(self, node_id: int) -> Node:
        return Node(
            self._properties(node_id),
            data_dir=self.root / str(node_id),
            cluster_id=reference.CLUSTER_ID,
            timeout_s=90,
        )

    def start(self) -> None:
        self.kafka.format()
        self.kafka.launch()
        self.controller.start()
        self.nodes[OURS].start()
        self.kafka.wait_until_ready()

    def close(self) -> None:
        self.kafka.kill()
        for node in (self.nodes[OURS], self.controller):
            if node.running:
                node.kill()
            node.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[each]}" for each in BOTH)

    def connect(self, broker_id: int | None = None) -> Connection:
        chosen = broker_id if broker_id is not None else next(each for each in BOTH if self.nodes[each].running)
        address = ("127.0.0.1", self.ports[chosen])
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        """Kafka's broker leads the even partitions, ours the odd ones."""
        replicas = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=BOTH if index % 2 == 0 else BOTH[::-1])
            for index in range(partitions)
        ]
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=replicas,
            configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
        )
        with self.connect() as connection:
            (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert created.error_code == 0, created.error_message
        wait_in_sync(self, topic, BOTH)

    def elect_preferred(self, *topics: str) -> None:
        """Each broker leads again where it is the first replica."""
        for topic in topics:
            wait_in_sync(self, topic, BOTH)
            asked = TopicPartitions(topic=topic, partitions=sorted(describe(self, topic)))
            with self.connect() as connection:
                answer = connection.request(ElectLeadersRequest(topic_partitions=[asked], timeout_ms=30_000))
            assert answer.error_code == 0
            wait_until(partial(self._all_preferred, topic), f"the first replicas lead {topic}")

    def _all_preferred(self, topic: str) -> bool:
        return all(each.leader == each.replicas[0] for by in BOTH for each in describe(self, topic, by).values())

    def logs(self, topic: str, partition: int) -> list[dict[int, bytes]]:
        directories = (self.kafka.data_dir, self.root / str(OURS))
        return [batches(directory / f"{topic}-{partition}") for directory in directories]

    def require_equal_logs(self, *topics: str) -> None:
        for topic in topics:
            for partition in describe(self, topic):
                at = (topic, partition)
                wait_until(partial(self._ends_are_equal, *at), f"both have {at} to the same end")
                kafkas, ours = self.logs(*at)
                assert kafkas, at
                assert kafkas == ours, at

    def _ends_are_equal(self, topic: str, partition: int) -> bool:
        kafkas, ours = self.ends(topic, partition)
        return kafkas == ours

    def ends(self, topic: str, partition: int) -> list[int]:
        """The first offsets of the last batches."""
        return [max(log, default=-1) for log in self.logs(topic, partition)]
