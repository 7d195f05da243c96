"""ListConfigResources, versions 0 to 1: the names of everything that has configs.

0 knows client metrics alone; 1 lets the caller choose the types, none meaning all. Topics and brokers are listed
whether or not anything was set for them, groups and subscriptions if it was. Deviations from Kafka: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.controller.configs import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE
from barnabas.core.metadata.state import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from barnabas.core.security.model import Operation, Resource
from barnabas.node.configuration.access import BROKER_LOGGER_RESOURCE, DESCRIBABLE
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata

IN_ORDER = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)
TYPES_SINCE = 1


async def handle(
    context: RequestContext, request: ListConfigResourcesRequest, node: Metadata
) -> ListConfigResourcesResponse:
    if not context.may(Operation.DESCRIBE_CONFIGS, Resource.cluster()):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = set(request.resource_types) if context.api_version >= TYPES_SINCE else {CLIENT_METRICS_RESOURCE}
    if not wanted <= DESCRIBABLE:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in IN_ORDER
            if kind in (wanted or DESCRIBABLE)
            for name in _names(kind, node.image)
        ]
    )


def _names(kind: int, image: MetadataImage) -> Iterable[str]:
    if kind == TOPIC_RESOURCE:
        return sorted(image.topics)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return map(str, sorted(image.brokers))
    return sorted(name for resource, name in image.configs if resource == kind)
