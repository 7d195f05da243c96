"""ElectLeaders, versions 0 to 2: the preferred replicas lead again, or one that is not in sync where none is.

1 brought unclean elections and an error of the whole request, 2 is flexible. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.elections import elect_leaders
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: ElectLeadersRequest, cluster: Cluster
) -> Steps[ControllerDecision[ElectLeadersResponse]]:
    context.authorize(Operation.ALTER, Resource.cluster())
    return elect_leaders.steps(cluster.image, request, cluster.rules)


def error_response(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or []
    ]
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)
