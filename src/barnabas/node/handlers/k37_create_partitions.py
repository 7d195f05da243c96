"""CreatePartitions, versions 0 to 3: more partitions for topics that exist, placed by us or as given.

Versions differ only in encoding and quotas. Deviations from Kafka: a request for more than 10,000 partitions is
refused with POLICY_VIOLATION, as CreateTopics does, instead of UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.partitions import create_partitions
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.handlers.k19_create_topics import require_time
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster

_random = Random()


def decide(
    context: RequestContext, request: CreatePartitionsRequest, cluster: Cluster
) -> Steps[ControllerDecision[CreatePartitionsResponse]]:
    require_time(request.timeout_ms)

    def may_alter(name: str) -> bool:
        return context.may(Operation.ALTER, Resource.topic(name))

    return create_partitions.steps(cluster.image, request, random=_random, may_alter=may_alter)


def error_response(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message or None)
            for topic in request.topics
        ]
    )
