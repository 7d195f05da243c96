"""DeleteTopics, versions 1 to 6: by name, since 6 also by id.

5 brought error messages. With `delete.topic.enable=false` every topic is refused, with TOPIC_DELETION_DISABLED since 3
and INVALID_REQUEST before. Deviations from Kafka: answers are not shuffled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.deletion import delete_topics
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.handlers.k19_create_topics import require_time
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster

DISABLED_SINCE = 3


def decide(
    context: RequestContext, request: DeleteTopicsRequest, cluster: Cluster
) -> Steps[ControllerDecision[DeleteTopicsResponse]]:
    if not cluster.config.delete_topic_enable:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        )
    require_time(request.timeout_ms)
    deletes_any = context.may(Operation.DELETE, Resource.cluster())

    def may_delete(name: str) -> bool:
        return deletes_any or context.may(Operation.DELETE, Resource.topic(name))

    def may_describe(name: str) -> bool:
        return deletes_any or context.may(Operation.DESCRIBE, Resource.topic(name))

    return delete_topics.steps(cluster.image, request, may_describe=may_describe, may_delete=may_delete)


def error_response(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    topics = [*(DeleteTopicState(name=name) for name in request.topic_names), *request.topics]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message or None
            )
            for topic in topics
        ]
    )
