"""Empties a running node through its own protocol: topics with all that belongs to them, and dynamic configurations.

Clients may stay connected, and several may reset at once: a topic that is gone already is as good as deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.connection import Connection
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.wire.messages.metadata import MetadataRequest

TIMEOUT_MS = 30_000
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32
EVERY_BROKER = ""
GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def reset(connection: Connection) -> None:
    topics = connection.request(MetadataRequest(topics=None)).topics
    if topics:
        states = [DeleteTopicState(name=None, topic_id=topic.topic_id) for topic in topics]
        deleted = connection.request(DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)).responses
        _check((each.error_code, each.error_message) for each in deleted if each.error_code not in GONE)
    listed = connection.request(ListConfigResourcesRequest(resource_types=[BROKER, CLIENT_METRICS, GROUP]))
    _check([(listed.error_code, None)])
    named = {(each.resource_type, each.resource_name) for each in listed.config_resources} | {(BROKER, EVERY_BROKER)}
    # The older of the two ways to alter sets all keys at once; here, none.
    emptied = [AlterConfigsResource(resource_type=kind, resource_name=name, configs=[]) for kind, name in sorted(named)]
    altered = connection.request(AlterConfigsRequest(resources=emptied)).responses
    _check((each.error_code, each.error_message) for each in altered)


def _check(results: Iterable[tuple[int, str | None]]) -> None:
    for code, message in results:
        if code:
            raise KafkaError(ErrorCode(code), message or "the reset was refused")
