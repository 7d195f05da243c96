"""Asks a cluster to describe topics and configurations, as the admin tools need it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.errors import ToolFailed
from barnabas.cli.refusals import check
from barnabas.client.errors import Refused, UnsupportedByBroker
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.wire.messages.describe_configs import DescribeConfigsResult

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}


class Partition(NamedTuple):
    number: int
    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None  # None where the broker does not tell
    last_known_elr: list[int] | None


class Topic(NamedTuple):
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: list[Partition]


def describe_topics(cluster: Cluster, names: Iterable[str], page: int = 2000) -> list[Topic]:
    """In the order of their names. Raises Refused for one that is not there."""
    wanted = sorted(names)
    try:
        return list(_by_page(cluster, wanted, page)) if wanted else []
    except UnsupportedByBroker:
        return list(_from_metadata(cluster, wanted))


def _by_page(cluster: Cluster, names: list[str], page: int) -> Iterator[Topic]:
    from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest

    found: dict[str, Topic] = {}
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=page
    )
    while True:
        answer = cluster.ask(request)
        for topic in answer.topics:
            check(topic.error_code, None if topic.error_code != 3 else f"Topic '{topic.name}' does not exist.")
            entry = found.setdefault(topic.name, Topic(topic.name, topic.topic_id, topic.is_internal, []))
            entry.partitions.extend(
                Partition(
                    each.partition_index,
                    each.leader_id,
                    each.replica_nodes,
                    each.isr_nodes,
                    each.eligible_leader_replicas or [],
                    each.last_known_elr or [],
                )
                for each in topic.partitions
            )
        if answer.next_cursor is None:
            break
        request.cursor = answer.next_cursor
        request.topics = [topic for topic in request.topics if topic.name >= answer.next_cursor.topic_name]
    for topic in found.values():
        topic.partitions.sort()
        yield topic


def _from_metadata(cluster: Cluster, names: list[str]) -> Iterator[Topic]:
    for topic in cluster.metadata(names).topics.values():
        check(topic.error, None if topic.error != 3 else f"Topic '{topic.name}' does not exist.")
        partitions = [
            Partition(index, each.leader, list(each.replicas), list(each.isr), None, None)
            for index, each in sorted(topic.partitions.items())
        ]
        yield Topic(topic.name, topic.topic_id, topic.is_internal, partitions)


def require_broker(cluster: Cluster, node_id: int) -> None:
    """A broker that is not there would be waited for."""
    present = cluster.metadata([]).brokers
    if node_id not in present:
        raise ToolFailed(f"Broker {node_id} is not there; the cluster has {', '.join(map(str, sorted(present)))}.")


class Config(NamedTuple):
    name: str
    value: str | None
    source: int
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[tuple[str, str | None, int]]

    @property
    def is_default(self) -> bool:
        return self.source == 5


def describe_configs(
    cluster: Cluster, kind: int, names: Iterable[str], *, synonyms: bool = True, node_id: int | None = None
) -> dict[str, list[Config]]:
    """By the resource's name; entries in the order of theirs."""
    from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
    ]
    if not resources:
        return {}
    request = DescribeConfigsRequest(resources=resources, include_synonyms=synonyms)
    answer = cluster.ask(request) if node_id is None else cluster.ask_node(node_id, request)
    found = {}
    for result in answer.results:
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Refused(result.error_code, f"Topic '{result.resource_name}' does not exist.")
        check(result.error_code, result.error_message)
        found[result.resource_name] = sorted(_entries(result))
    return found


def _entries(result: DescribeConfigsResult) -> Iterator[Config]:
    for each in result.configs:
        others = [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms]
        yield Config(each.name, each.value, each.config_source, each.is_sensitive, each.read_only, others)
