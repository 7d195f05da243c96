"""IncrementalAlterConfigs, versions 0 to 1: single keys set, deleted, and lists appended to and subtracted from.

The levels of loggers are set here too; they are this node's alone and end with it, so no record is written of them.
Deviations from Kafka: those of `node/configuration/reconfiguration.py`, and any broker takes the configs of another one
that is registered, where Kafka's takes only its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.core.controller.configs import alter_incrementally
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import BROKER_RESOURCE, ConfigResource
from barnabas.core.security.model import Operation
from barnabas.core.steps import Steps
from barnabas.node.configuration.access import BROKER_LOGGER_RESOURCE, secured_by
from barnabas.node.configuration.alteration import AlterationRules
from barnabas.node.configuration.definition import ConfigError
from barnabas.node.configuration.loggers import set_levels
from barnabas.node.requests import RequestContext
from barnabas.node.security.listeners import changed_stores_reader
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster
    from barnabas.node.ports import Forwarding


SET, DELETE = 0, 1


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest, node: Forwarding
) -> IncrementalAlterConfigsResponse:
    stored: list[AlterConfigsResource] = []
    refused: dict[int, AlterConfigsResourceResponse] = {}
    async for each in in_turns(request.resources):
        error = await _stores_error(context, each, node)
        if error is not None:
            refused[id(each)] = _response(each, error)
        elif each.resource_type != BROKER_LOGGER_RESOURCE:
            stored.append(each)
    answers: Iterator[AlterConfigsResourceResponse] = iter(())
    if stored:
        rest = IncrementalAlterConfigsRequest(resources=stored, validate_only=request.validate_only)
        answers = iter((await node.controller.execute(context, rest)).responses)
    times = Counter(each.resource_name for each in request.resources if each.resource_type == BROKER_LOGGER_RESOURCE)
    return IncrementalAlterConfigsResponse(
        responses=[
            _set_levels(context, each, node, times[each.resource_name], validate_only=request.validate_only)
            if each.resource_type == BROKER_LOGGER_RESOURCE
            else refused.get(id(each)) or next(answers)
            async for each in in_turns(request.resources)
        ]
    )


async def _stores_error(context: RequestContext, resource: AlterConfigsResource, node: Forwarding) -> KafkaError | None:
    """Key stores that this broker could not read are refused before anything is stored."""
    if resource.resource_type != BROKER_RESOURCE or resource.resource_name != str(node.node_id):
        return None
    changes = {
        each.name: each.value if each.config_operation == SET else None
        for each in resource.configs
        if each.config_operation in (SET, DELETE)
    }
    read = changed_stores_reader(node.config, changes)
    if read is None or not context.may(Operation.ALTER_CONFIGS, secured_by(*_resource(resource))):
        return None
    try:
        await asyncio.to_thread(read)
    except ConfigError as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    return None


def _resource(resource: AlterConfigsResource) -> ConfigResource:
    return resource.resource_type, resource.resource_name


def decide(
    context: RequestContext, request: IncrementalAlterConfigsRequest, cluster: Cluster
) -> Steps[ControllerDecision[IncrementalAlterConfigsResponse]]:
    def authorize(resource: ConfigResource) -> None:
        context.authorize(Operation.ALTER_CONFIGS, secured_by(*resource))

    return alter_incrementally.steps(cluster.image, request, AlterationRules(cluster.topic_configs, authorize))


def _set_levels(
    context: RequestContext, resource: AlterConfigsResource, node: Forwarding, times: int, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    try:
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        context.authorize(Operation.ALTER_CONFIGS, secured_by(resource.resource_type, resource.resource_name))
        set_levels(node.node_id, resource.resource_name, resource.configs, validate_only=validate_only)
    except KafkaError as error:
        return _response(resource, error)
    return _response(resource)


def error_response(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_response(resource, error) for resource in request.resources])


def _response(resource: AlterConfigsResource, error: KafkaError | None = None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=error.message or None if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
