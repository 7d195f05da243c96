"""DescribeConfigs, versions 1 to 4: the configs of topics, brokers, groups, client metrics and loggers.

3 brought types and documentation. A broker describes itself and, under the empty name, what was set for all brokers.
A request that names a type nobody knows is refused whole.

Deviations from Kafka: entries are in the order of their names, documentation is in our own words, and loggers are those
of Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.configs import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE
from barnabas.core.controller.topic_names import name_error
from barnabas.core.metadata.state import BROKER_RESOURCE, TOPIC_RESOURCE
from barnabas.core.security.model import Operation
from barnabas.node.configuration.access import BROKER_LOGGER_RESOURCE, DESCRIBABLE, broker_id, secured_by
from barnabas.node.configuration.description import (
    Entries,
    Wanted,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    logger_entries,
    topic_entries,
)
from barnabas.node.configuration.loggers import logger_levels
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: DescribeConfigsRequest, node: Node) -> DescribeConfigsResponse:
    for resource in request.resources:
        if resource.resource_type not in DESCRIBABLE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"There are no configs of type {resource.resource_type}.")
    return DescribeConfigsResponse(results=[_result(context, request, each, node) for each in request.resources])


def error_response(request: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource, node: Node
) -> DescribeConfigsResult:
    wanted = Wanted(
        frozenset(resource.configuration_keys or ()), request.include_synonyms, request.include_documentation
    )
    try:
        context.authorize(Operation.DESCRIBE_CONFIGS, secured_by(resource.resource_type, resource.resource_name))
        configs = _describe(resource.resource_type, resource.resource_name, wanted, node)
    except KafkaError as error:
        return _refused(resource, error)
    return DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=configs
    )


def _describe(kind: int, name: str, wanted: Wanted, node: Node) -> Entries:
    image, topics = node.image, node.topic_configs
    if kind == TOPIC_RESOURCE:
        if error := name_error(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(topics, image, name, wanted)
    if kind == BROKER_RESOURCE:
        if not name:
            return default_broker_entries(topics.broker(image), wanted)
        _require_own_id(name, node.node_id, "or empty string, ")
        return broker_entries(topics.broker(image), wanted)
    if not name:
        subject = {BROKER_LOGGER_RESOURCE: "Broker id", GROUP_RESOURCE: "Group name"}.get(kind, "Subscription name")
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{subject} must not be empty")
    if kind == BROKER_LOGGER_RESOURCE:
        _require_own_id(name, node.node_id)
        return logger_entries(logger_levels(), wanted)
    own = image.configs.get((kind, name), {})
    if kind == CLIENT_METRICS_RESOURCE:
        return client_metrics_entries(own, wanted)
    return group_entries(topics.broker(image), own, wanted)


def _require_own_id(name: str, node_id: int, alternative: str = "") -> None:
    if (given := broker_id(name)) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if given != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} {alternative}but received {name}"
        )
