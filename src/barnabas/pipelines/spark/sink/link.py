"""A process's link to a cluster: connections, what is known of topics, and the producer id of the plain sink.

Spark hands tasks to any of its Python processes, so links are kept per process and setting. A task that fails drops
its link: answers may be due on its connections.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.client.cluster import UNKNOWN, Attempts, Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError, Refused, known_code
from barnabas.client.metadata import NO_LEADER, TopicPartition
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.sink.transactions import TransactionalProducer
from barnabas.wire.errors import ErrorCode

NEW_TOPIC_PATIENCE_MS = 5_000
MAX_MESSAGE_BYTES = 1_048_588  # Kafka's default, where the topic's own cannot be asked for
TOPIC_RESOURCE = 2


@dataclass(slots=True)
class ProducerIdentity:
    """Batches are numbered by partition, over all the tasks that a process runs."""

    producer_id: int
    epoch: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    partitions: int
    writable: tuple[int, ...]
    max_message_bytes: int
    known_until: float


class Link:
    def __init__(self, properties: Mapping[str, str]) -> None:
        settings = ClientSettings.from_properties(properties, client_id=properties.get("client.id", "barnabas-spark"))
        self.cluster = Cluster(settings)
        self.transactions = TransactionalProducer(self.cluster)
        self.batch_connections: dict[int, Connection] = {}
        self._topics: dict[str, TopicFacts] = {}
        self._identity: ProducerIdentity | None = None

    def topic(self, name: str) -> TopicFacts:
        """Asks the cluster to create it where it does that for producers."""
        facts = self._topics.get(name)
        if facts is None or time.monotonic() > facts.known_until:
            facts = self._topics[name] = self._ask_topic(name)
        return facts

    def identity(self) -> ProducerIdentity:
        from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

        attempts = Attempts(self.cluster.settings)
        while self._identity is None:
            answer = self.cluster.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
            code = known_code(answer.error_code)
            if not code:
                self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            elif code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not attempts.pause():
                raise Refused(code, "The cluster gives no producer id")
        return self._identity

    def create_topic(self, name: str) -> None:
        from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=-1)
        (made,) = self.cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        if known_code(made.error_code) not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise Refused(made.error_code, f"Topic {name} cannot be created: {made.error_message or ''}".rstrip(": "))

    def close(self) -> None:
        for connection in self.batch_connections.values():
            connection.close()
        self.batch_connections.clear()
        self.cluster.close()

    def _ask_topic(self, name: str) -> TopicFacts:
        attempts = Attempts(self.cluster.settings, NEW_TOPIC_PATIENCE_MS)
        while True:
            found = self.cluster.metadata([name], allow_auto_topic_creation=True).topics[name]
            leaders = [partition.leader for partition in found.partitions.values()]
            if not found.error and any(leader != NO_LEADER for leader in leaders):
                break
            if found.error and found.error not in UNKNOWN and found.error is not ErrorCode.LEADER_NOT_AVAILABLE:
                raise Refused(found.error, f"Topic {name} cannot be written to")
            if not attempts.pause():
                raise OptionError(f"topic {name} does not exist, and the cluster does not create it by itself")
        writable = tuple(index for index, partition in found.partitions.items() if partition.leader != NO_LEADER)
        age_s = self.cluster.settings.metadata_max_age_ms / 1000
        return TopicFacts(len(leaders), writable, self._max_message_bytes(name), time.monotonic() + age_s)

    def _max_message_bytes(self, topic: str) -> int:
        from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

        asked = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["max.message.bytes"]
        )
        try:
            (answer,) = self.cluster.ask(DescribeConfigsRequest(resources=[asked])).results
        except ClientError:
            return MAX_MESSAGE_BYTES
        values = [config.value for config in answer.configs if config.name == "max.message.bytes" and config.value]
        return int(values[0]) if values else MAX_MESSAGE_BYTES


_links: dict[frozenset[tuple[str, str]], Link] = {}


def link_to(properties: Mapping[str, str]) -> Link:
    key = frozenset(properties.items())
    if key not in _links:
        _links[key] = Link(properties)
    return _links[key]


def drop_link(properties: Mapping[str, str]) -> None:
    link = _links.pop(frozenset(properties.items()), None)
    if link is not None:
        link.close()
