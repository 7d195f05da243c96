"""IncrementalAlterConfigs, versions 0 to 1: single keys set, deleted, and lists appended to and subtracted from.

The levels of loggers are set here too; they are this node's alone and end with it, so no record is written of them.
Deviations from Kafka: those of `node/configuration/reconfiguration.py`, and any broker takes the configs of another one
that is registered, where Kafka's takes only its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.core.controller.configs import alter_incrementally
from barnabas.core.decision import Decision
from barnabas.core.metadata.state import ConfigResource
from barnabas.core.security.model import Operation
from barnabas.core.steps import Steps
from barnabas.node.configuration.access import BROKER_LOGGER_RESOURCE, secured_by
from barnabas.node.configuration.alteration import AlterationRules
from barnabas.node.configuration.loggers import set_levels
from barnabas.node.requests import RequestContext
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


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest, node: Forwarding
) -> IncrementalAlterConfigsResponse:
    stored = [each async for each in in_turns(request.resources) if each.resource_type != BROKER_LOGGER_RESOURCE]
    answers: Iterator[AlterConfigsResourceResponse] = iter(())
    if stored:
        rest = IncrementalAlterConfigsRequest(resources=stored, validate_only=request.validate_only)
        answers = iter((await node.controller.execute(context, rest)).responses)
    times = Counter(each.resource_name for each in request.resources if each.resource_type == BROKER_LOGGER_RESOURCE)
    return IncrementalAlterConfigsResponse(
        responses=[
            _set_levels(context, each, node, times[each.resource_name], validate_only=request.validate_only)
            if each.resource_type == BROKER_LOGGER_RESOURCE
            else next(answers)
            async for each in in_turns(request.resources)
        ]
    )


def decide(
    context: RequestContext, request: IncrementalAlterConfigsRequest, cluster: Cluster
) -> Steps[Decision[IncrementalAlterConfigsResponse]]:
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
