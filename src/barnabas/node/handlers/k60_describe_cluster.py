"""DescribeCluster, versions 0 to 2: the brokers behind a broker's listener, the controllers behind a controller's.

1 brought the type of the endpoints asked for, 2 fenced brokers. Deviations from Kafka: the controller named to clients
of brokers is this broker instead of a random one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.view import ImageView
from barnabas.core.metadata.state import NO_LEADER
from barnabas.core.security.model import OPERATIONS_NOT_ASKED_FOR, Operation, Resource
from barnabas.node.requests import ListenerKind, RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata

BROKERS, CONTROLLERS = 1, 2
ENDPOINT_TYPES = {BROKERS: "brokers", CONTROLLERS: "controllers"}


async def handle(context: RequestContext, request: DescribeClusterRequest, node: Metadata) -> DescribeClusterResponse:
    if context.listener_kind is ListenerKind.CONTROLLER:
        context.authorize(Operation.ALTER, Resource.cluster())
        _check(context, request, CONTROLLERS)
        brokers, controller_id = _controllers(context, node)
    else:
        _check(context, request, BROKERS)
        brokers, controller_id = _brokers(context, request, node)
    if not any(broker.broker_id == controller_id for broker in brokers):
        controller_id = NO_LEADER
    response = DescribeClusterResponse(cluster_id=node.cluster_id, controller_id=controller_id, brokers=brokers)
    if context.api_version >= 1:
        response.endpoint_type = request.endpoint_type
    response.cluster_authorized_operations = _operations(context, request)
    return response


def _check(context: RequestContext, request: DescribeClusterRequest, here: int) -> None:
    wanted = request.endpoint_type
    if wanted == here:
        return
    if wanted not in ENDPOINT_TYPES:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"The endpoint type {wanted} is unknown."
    else:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = f"This listener knows {ENDPOINT_TYPES[here]}, and {ENDPOINT_TYPES[wanted]} were asked for."
    raise KafkaError(ErrorCode.INVALID_REQUEST if context.api_version == 0 else code, message)


def _brokers(
    context: RequestContext, request: DescribeClusterRequest, node: Metadata
) -> tuple[list[DescribeClusterBroker], int]:
    view = ImageView(node.image, context.listener)
    brokers = []
    for broker, endpoint in view.alive_brokers(fenced=request.include_fenced_brokers):
        described = DescribeClusterBroker(
            broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced
        )
        brokers.append(described)
    return brokers, view.controller_id(node.node_id)


def _controllers(context: RequestContext, node: Metadata) -> tuple[list[DescribeClusterBroker], int]:
    controllers = [
        DescribeClusterBroker(broker_id=controller.id, host=endpoint.host, port=endpoint.port)
        for controller in node.image.controllers.values()
        if (endpoint := controller.endpoints.get(context.listener))
    ]
    return controllers, node.raft.leader_id


def _operations(context: RequestContext, request: DescribeClusterRequest) -> int:
    if not request.include_cluster_authorized_operations:
        return OPERATIONS_NOT_ASKED_FOR
    if not context.may(Operation.DESCRIBE, Resource.cluster()):
        return 0
    return context.authorized_operations(Resource.cluster())
