"""BrokerHeartbeat, versions 0 to 2: a broker lives, wants to be in service or to leave, or has lost a log directory.

1 brought lost directories, 2 cordoned ones. The broker in the process of a controller that is the whole quorum leaves
in one step. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller import brokers, liveness
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: BrokerHeartbeatRequest, cluster: Cluster
) -> ControllerDecision[BrokerHeartbeatResponse]:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    if context.is_own and cluster.is_alone_with(request.broker_id):
        return brokers.heartbeat(cluster.image, request, cluster.rules)
    return liveness.heartbeat(cluster.image, request, cluster.sessions, cluster.rules, cluster.clock())
