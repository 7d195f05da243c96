"""AllocateProducerIds: a block of producer ids for a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.producer_ids import allocate_producer_ids
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: AllocateProducerIdsRequest, cluster: Cluster
) -> ControllerDecision[AllocateProducerIdsResponse]:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return allocate_producer_ids(cluster.image, request)
