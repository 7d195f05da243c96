"""ListPartitionReassignments, version 0: the partitions whose replicas are being changed.

Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.reassignment import list_partition_reassignments
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest, node: Node
) -> ListPartitionReassignmentsResponse:
    context.authorize(Operation.DESCRIBE, Resource.cluster())
    return list_partition_reassignments(node.image, request)
