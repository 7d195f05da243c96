"""AlterPartitionReassignments, versions 0 and 1: other replicas for partitions, or the end of such a change.

1 brought the wish that the replication factor stays. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.reassignment import alter_partition_reassignments
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: AlterPartitionReassignmentsRequest, cluster: Cluster
) -> Steps[ControllerDecision[AlterPartitionReassignmentsResponse]]:
    context.authorize(Operation.ALTER, Resource.cluster())
    return alter_partition_reassignments.steps(cluster.image, request)


def error_response(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """For the whole, and once more for each partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=error.code, error_message=error.message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
