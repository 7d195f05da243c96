"""CreateTopics, versions 2 to 7: topics placed by us or as given, with their configs.

5 brought the created topic's configs, partitions and replication factor in the answer, 7 its id. Deviations from Kafka:
sizes that overflow Kafka's sum of partitions are refused as too large, instead of with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.topics import CreationRules, create_topics
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster

_random = Random()


def decide(
    context: RequestContext, request: CreateTopicsRequest, cluster: Cluster
) -> Steps[ControllerDecision[CreateTopicsResponse]]:
    require_time(request.timeout_ms)
    creates_any = context.may(Operation.CREATE, Resource.cluster())

    def may_create(name: str) -> bool:
        return creates_any or context.may(Operation.CREATE, Resource.topic(name))

    def may_describe_configs(name: str) -> bool:
        return context.may(Operation.DESCRIBE_CONFIGS, Resource.topic(name))

    config = cluster.config
    rules = CreationRules(
        num_partitions=config.num_partitions,
        replication_factor=config.default_replication_factor,
        configs=cluster.topic_configs,
        random=_random,
        new_id=Uuid.random,
        may_create=may_create,
        may_describe_configs=may_describe_configs,
    )
    return create_topics.steps(cluster.image, request, rules)


def require_time(timeout_ms: int) -> None:
    """As Kafka's, our controller begins nothing whose time is already up."""
    if timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)


def error_response(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message or None)
            for topic in request.topics
        ]
    )
