"""AlterPartitionReassignments, versions 0 and 1: other replicas for partitions, or the end of such a change.

1 brought the wish that the replication factor stays. Deviations from Kafka: replicas on other nodes do not catch up
yet, so a reassignment to a registered node that adds it stays in progress until it is cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.reassignment import alter_partition_reassignments
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest, node: Node
) -> AlterPartitionReassignmentsResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    return await node.controller.submit(lambda image: alter_partition_reassignments(image, request))
