"""Empties a running node through its own protocol: topics with all that belongs to them, and dynamic configurations.

Clients may stay connected, and several may reset at once: a topic that is gone already is as good as deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.connection import Connection
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.wire.messages.metadata import MetadataRequest

TIMEOUT_MS = 30_000
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32
EVERY_BROKER = ""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
STATIC_SOURCES = (4, 5)  # server.properties, and what Kafka has without it
GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def reset(connection: Connection) -> None:
    known = connection.request(MetadataRequest(topics=None))
    topics = known.topics
    if topics:
        states = [DeleteTopicState(name=None, topic_id=topic.topic_id) for topic in topics]
        deleted = connection.request(DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)).responses
        _check((each.error_code, each.error_message) for each in deleted if each.error_code not in GONE)
    listed = connection.request(ListConfigResourcesRequest(resource_types=[BROKER, CLIENT_METRICS, GROUP]))
    _check([(listed.error_code, None)])
    named = {(each.resource_type, each.resource_name) for each in listed.config_resources} | {(BROKER, EVERY_BROKER)}
    # The older of the two ways to alter sets all keys at once; here, none.
    kept = {(BROKER, EVERY_BROKER): _kept(connection, known.brokers[0].node_id)}
    emptied = [
        AlterConfigsResource(resource_type=kind, resource_name=name, configs=kept.get((kind, name), []))
        for kind, name in sorted(named)
    ]
    altered = connection.request(AlterConfigsRequest(resources=emptied)).responses
    _check((each.error_code, each.error_message) for each in altered)


def _kept(connection: Connection, node_id: int) -> list[AlterableConfig]:
    """Where eligible leaders are tracked, the cluster always has a `min.insync.replicas`: first the node's own."""
    asked = [
        DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=[MIN_INSYNC_REPLICAS])
        for name in (EVERY_BROKER, str(node_id))
    ]
    described = connection.request(DescribeConfigsRequest(resources=asked, include_synonyms=True)).results
    _check((each.error_code, each.error_message) for each in described)
    of_cluster, of_node = (each.configs for each in described)
    if not of_cluster:
        return []
    static = [each.value for each in of_node[0].synonyms if each.source in STATIC_SOURCES]
    return [AlterableConfig(name=MIN_INSYNC_REPLICAS, value=static[0])]


def _check(results: Iterable[tuple[int, str | None]]) -> None:
    for code, message in results:
        if code:
            raise KafkaError(ErrorCode(code), message or "the reset was refused")
