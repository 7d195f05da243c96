"""A process's link to a cluster: connections, what is known of topics, and the sender of the plain sink.

Spark hands tasks to any of its Python processes, so links are kept per process and setting. A task that fails drops
its link: answers may be due on its connections.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.client.admin.configs import TOPIC, describe_configs
from barnabas.client.batch_sender import BatchSender
from barnabas.client.cluster import UNKNOWN, Attempts, Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError, Refused
from barnabas.client.metadata import NO_LEADER
from barnabas.client.per_process import PerProcess
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.sink.transactions import TransactionalProducer
from barnabas.wire.errors import ErrorCode

NEW_TOPIC_PATIENCE_MS = 5_000
MAX_MESSAGE_BYTES = 1_048_588  # Kafka's default, where the topic's own cannot be asked for


@dataclass(frozen=True, slots=True)
class TopicFacts:
    partitions: int
    writable: tuple[int, ...]
    max_message_bytes: int
    known_until: float


class SinkLink:
    def __init__(self, properties: Mapping[str, str]) -> None:
        settings = ClientSettings.from_properties(properties, client_id=properties.get("client.id", "barnabas-spark"))
        self.cluster = Cluster(settings)
        self.transactions = TransactionalProducer(self.cluster)
        self._topics: dict[str, TopicFacts] = {}
        self._plain_sender: BatchSender | None = None

    @property
    def batch_connections(self) -> dict[int, Connection]:
        return self.transactions.batch_connections

    def topic(self, name: str) -> TopicFacts:
        """Asks the cluster to create it where it does that for producers."""
        facts = self._topics.get(name)
        if facts is None or time.monotonic() > facts.known_until:
            facts = self._topics[name] = self._ask_topic(name)
        return facts

    def plain_sender(self, settings: ProducerSettings) -> BatchSender:
        """Numbers batches by partition, over all the tasks that a process runs."""
        if self._plain_sender is None:
            self._plain_sender = BatchSender(self.cluster, settings, connections=self.batch_connections)
        return self._plain_sender

    def close(self) -> None:
        if self._plain_sender is not None:
            self._plain_sender.close()
            self._plain_sender = None
        self.transactions.close()
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
        return TopicFacts(len(leaders), writable, max_message_bytes(self.cluster, name), time.monotonic() + age_s)


def max_message_bytes(cluster: Cluster, topic: str) -> int:
    try:
        configs = describe_configs(cluster, TOPIC, [topic], synonyms=False)[topic]
    except ClientError:
        return MAX_MESSAGE_BYTES
    values = [config.value for config in configs if config.name == "max.message.bytes" and config.value]
    return int(values[0]) if values else MAX_MESSAGE_BYTES


_links: PerProcess[SinkLink] = PerProcess()


def shared_link(properties: Mapping[str, str]) -> SinkLink:
    """The one link that this process has with these properties, made when it is first asked for."""
    return _links.get(frozenset(properties.items()), lambda: SinkLink(properties))


def drop_link(properties: Mapping[str, str]) -> None:
    _links.drop(frozenset(properties.items()))
