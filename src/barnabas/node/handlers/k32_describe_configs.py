"""DescribeConfigs, versions 1 to 4: the configs of topics, brokers, groups, client metrics and loggers.

3 brought types and documentation. A broker describes itself and, under the empty name, what was set for all brokers.
A request that names a type nobody knows is refused whole.

Deviations from Kafka: entries are in the order of their names, documentation is in our own words, and loggers are those
of Python.
"""

from __future__ import annotations

from functools import partial
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
from barnabas.node.configuration.packing import Packer
from barnabas.node.requests import RawResponse, RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(context: RequestContext, request: DescribeConfigsRequest, node: Metadata) -> RawResponse:
    async for resource in in_turns(request.resources):
        if resource.resource_type not in DESCRIBABLE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"There are no configs of type {resource.resource_type}.")
    packer = Packer(context.api_version)
    results: list[bytes] = []
    known: dict[object, bytes] = {}
    left_bytes = node.config.barnabas_answer_max_bytes
    async for resource in in_turns(request.resources):
        keys = None if resource.configuration_keys is None else tuple(resource.configuration_keys)
        asked = (resource.resource_type, resource.resource_name, keys)
        if asked not in known:
            known[asked] = _result(context, request, resource, node, packer)
        results.append(known[asked])
        left_bytes -= len(results[-1])
        if left_bytes < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The answer would have more than barnabas.answer.max.bytes.")
    return packer.response(results)


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
    context: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    node: Metadata,
    packer: Packer,
) -> bytes:
    kind, name = resource.resource_type, resource.resource_name
    keys = frozenset(resource.configuration_keys or ())
    wanted = Wanted(keys, request.include_synonyms, request.include_documentation)
    try:
        context.authorize(Operation.DESCRIBE_CONFIGS, secured_by(kind, name))
        if kind == TOPIC_RESOURCE:
            return _topic(name, wanted, node, packer)
        configs = _describe(kind, name, wanted, node)
    except KafkaError as error:
        return packer.result(_refused(resource, error))
    return packer.result(DescribeConfigsResult(resource_type=kind, resource_name=name, configs=configs))


def _topic(name: str, wanted: Wanted, node: Metadata, packer: Packer) -> bytes:
    image, topics = node.image, node.topic_configs
    if error := name_error(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    if name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def packed(of_topic: str, *only: str) -> dict[str, bytes]:
        chosen = wanted._replace(keys=frozenset(only))
        return {each.name: packer.entry(each) for each in topic_entries(topics, image, of_topic, chosen)}

    shape = (packer.version, wanted.synonyms, wanted.documentation)
    entries = topics.remembered(image, shape, lambda: packed(""))
    own = image.configs.get((TOPIC_RESOURCE, name))
    if not own and not wanted.keys:
        tail = topics.remembered(image, (shape, "tail"), lambda: packer.tail(list(entries.values())))
        return packer.head(name) + tail
    if own:
        entries = entries.copy()
        for key, text in own.items():
            entries |= topics.remembered(image, (shape, key, text), partial(packed, name, key))
    return packer.topic(name, [entries[key] for key in wanted.of(entries)])


def _describe(kind: int, name: str, wanted: Wanted, node: Metadata) -> Entries:
    image, topics = node.image, node.topic_configs
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
