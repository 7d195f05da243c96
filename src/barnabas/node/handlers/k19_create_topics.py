"""CreateTopics, versions 2 to 7: topics placed by us or as given, with their configs.

5 brought the created topic's configs, partitions and replication factor in the answer, 7 its id. Deviations from Kafka:
sizes that overflow Kafka's sum of partitions are refused as too large, instead of with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING

from barnabas.core.controller.automatic import automatic_topic
from barnabas.core.controller.topics import CreationRules, create_topics, everybody
from barnabas.core.security.model import Operation, Resource
from barnabas.node.dispatch import LogLimiter
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.node import Node

log = logging.getLogger(__name__)
_limiter = LogLimiter()
_random = Random()


async def handle(context: RequestContext, request: CreateTopicsRequest, node: Node) -> CreateTopicsResponse:
    require_time(request.timeout_ms)
    creates_any = context.may(Operation.CREATE, Resource.cluster())

    def may_create(name: str) -> bool:
        return creates_any or context.may(Operation.CREATE, Resource.topic(name))

    def may_describe_configs(name: str) -> bool:
        return context.may(Operation.DESCRIBE_CONFIGS, Resource.topic(name))

    rules = _rules(node, may_create=may_create, may_describe_configs=may_describe_configs)
    return await node.controller.submit(lambda image: create_topics(image, request, rules))


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


async def create_automatically(node: Node, names: Iterable[str]) -> None:
    """Creates topics that somebody asked for; those that cannot be created stay unknown, and the log says why."""
    topics = [automatic_topic(name, node.config.value) for name in names]
    request = CreateTopicsRequest(topics=topics)
    rules = _rules(node)
    try:
        response = await node.controller.submit(lambda image: create_topics(image, request, rules))
    except KafkaError as error:
        response = error_response(request, error)
    for result in response.topics:
        made = result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        if not made and _limiter.allows(result.name):
            log.warning("Topic '%s' was not created by itself: %s", result.name, result.error_message)


def _rules(
    node: Node,
    may_create: Callable[[str], bool] = everybody,
    may_describe_configs: Callable[[str], bool] = everybody,
) -> CreationRules:
    return CreationRules(
        num_partitions=node.config.num_partitions,
        replication_factor=node.config.default_replication_factor,
        configs=node.topic_configs,
        random=_random,
        new_id=Uuid.random,
        may_create=may_create,
        may_describe_configs=may_describe_configs,
    )
