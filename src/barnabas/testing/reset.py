"""Empties a running node through its own protocol: topics, their configurations, dynamic broker configurations."""

from __future__ import annotations

from barnabas.client.blocking import Connection
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.wire.messages.metadata import MetadataRequest

TIMEOUT_MS = 30_000
BROKER = 4
GROUP = 32
DELETE = 1
DYNAMIC_SOURCES = {2, 3, 8}


def reset(connection: Connection) -> None:
    topics = connection.request(MetadataRequest(topics=None)).topics
    if topics:
        _check(
            connection.request(
                DeleteTopicsRequest(
                    topics=[DeleteTopicState(name=None, topic_id=topic.topic_id) for topic in topics],
                    timeout_ms=TIMEOUT_MS,
                )
            ).responses
        )
    listed = connection.request(ListConfigResourcesRequest(resource_types=[BROKER, GROUP])).config_resources
    resources = {(item.resource_type, item.resource_name) for item in listed} | {(BROKER, "")}
    described = connection.request(
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for kind, name in sorted(resources)
            ]
        )
    ).results
    changes = [
        AlterConfigsResource(
            resource_type=result.resource_type,
            resource_name=result.resource_name,
            configs=[AlterableConfig(name=entry.name, config_operation=DELETE, value=None) for entry in own],
        )
        for result in described
        if (own := [entry for entry in result.configs if _is_own(entry.config_source, result.resource_name)])
    ]
    if changes:
        _check(connection.request(IncrementalAlterConfigsRequest(resources=changes)).responses)


def _is_own(source: int, resource_name: str) -> bool:
    """A broker lists the cluster's defaults too: those are deleted where they were set."""
    default_broker_config = 3
    return source in DYNAMIC_SOURCES and (source != default_broker_config or resource_name == "")


def _check(responses: list[object]) -> None:
    for response in responses:
        code = ErrorCode(response.error_code)  # type: ignore[attr-defined]
        if code is not ErrorCode.NONE:
            raise KafkaError(code, getattr(response, "error_message", None) or "the reset was refused")
