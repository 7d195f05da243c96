"""AssignReplicasToDirs: a broker tells in which log directory each of its replicas lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.assignment import assign_replicas_to_dirs
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: AssignReplicasToDirsRequest, cluster: Cluster
) -> ControllerDecision[AssignReplicasToDirsResponse]:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return assign_replicas_to_dirs(cluster.image, request, cluster.rules)
