"""ListPartitionReassignments, version 0: the partitions whose replicas are being changed.

Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.reassignment import list_partition_reassignments
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: ListPartitionReassignmentsRequest, cluster: Cluster
) -> Steps[ControllerDecision[ListPartitionReassignmentsResponse]]:
    context.authorize(Operation.DESCRIBE, Resource.cluster())
    return ControllerDecision([], (yield from list_partition_reassignments.steps(cluster.image, request)))
