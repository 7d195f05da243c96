"""UnregisterBroker, version 0: a broker that is gone for good is forgotten.

Deviations from Kafka: the node refuses to forget itself; Kafka forgets it, and it registers anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.reassignment import unregister_broker
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: UnregisterBrokerRequest, cluster: Cluster
) -> ControllerDecision[UnregisterBrokerResponse]:
    context.authorize(Operation.ALTER, Resource.cluster())
    return unregister_broker(cluster.image, request.broker_id, cluster.node_id, cluster.rules)
