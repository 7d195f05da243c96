"""AlterConfigs, versions 0 to 2: all configs of a resource at once; those not named are deleted.

Deviations from Kafka: a request that names a resource twice is answered with INVALID_REQUEST; Kafka does not answer it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.configs import alter
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import ConfigResource
from barnabas.core.security.model import Operation
from barnabas.core.steps import Steps
from barnabas.node.configuration.access import secured_by
from barnabas.node.configuration.alteration import AlterationRules
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: AlterConfigsRequest, cluster: Cluster
) -> Steps[ControllerDecision[AlterConfigsResponse]]:
    def authorize(resource: ConfigResource) -> None:
        context.authorize(Operation.ALTER_CONFIGS, secured_by(*resource))

    return alter.steps(cluster.image, request, AlterationRules(cluster.topic_configs, authorize))


def error_response(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
