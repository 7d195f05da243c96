"""Metadata, versions 0 to 13: brokers, controller, and topics with their partitions.

1 brought racks, the controller, internal topics and null for all topics (an empty list asked for all before), 2 the
cluster id, 3 the throttle time, 4 the choice not to create topics, 5 offline replicas, 6 the error for a listener that
the leader lacks, 7 leader epochs, 8 authorized operations (the cluster's only until 10), 9 compact encoding, 10 topic
ids in answers, 12 topics by id, 13 an error for the whole request.

A topic that may be created is created before it is answered, so its first producer need not ask again; one that was
deleted in the last ten seconds is UNKNOWN_TOPIC_OR_PARTITION first, and then created.

Deviations from Kafka: an unknown topic that could be created, and was not just deleted, is answered ready instead of
with UNKNOWN_TOPIC_OR_PARTITION and ready a moment later; a topic with neither name nor id is INVALID_REQUEST instead of
UNKNOWN_SERVER_ERROR; the controller named is this broker instead of a random one.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import INTERNAL_TOPICS, name_error
from barnabas.core.security.model import OPERATIONS_NOT_ASKED_FOR, Operation, Resource
from barnabas.node.broker.metadata_cache import EncodedMetadata
from barnabas.node.requests import RawResponse, RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Topics

IDS_SINCE = 12
NOT_HIDDEN: frozenset[str] = frozenset()


async def handle(context: RequestContext, request: MetadataRequest, node: Topics) -> RawResponse:
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        return await _all_topics(context, request, node)
    if len(asked) == 1 and (answer := _one_topic(context, request, asked[0], node)) is not None:
        return answer
    async for topic in in_turns(asked):
        _check(topic, context.api_version)
    ids = list(dict.fromkeys([topic.topic_id async for topic in in_turns(asked) if topic.topic_id != ZERO_UUID]))
    if ids:
        encoded = node.metadata_cache.encoded(node.image, context.api_version, context.listener)
        topics = [_topic_by_id(context, request, encoded, topic_id) async for topic_id in in_turns(ids)]
    else:
        names = dict.fromkeys([topic.name async for topic in in_turns(asked) if topic.name is not None])
        hidden = await _create_missing(context, request, node, names)
        encoded = node.metadata_cache.encoded(node.image, context.api_version, context.listener)
        topics = [_topic_by_name(context, request, encoded, name, hidden) async for name in in_turns(names)]
    return encoded.answer(topics, _cluster_operations(context, request))


def error_response(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or []
    ]
    return MetadataResponse(topics=topics, error_code=error.code)


def _one_topic(
    context: RequestContext, request: MetadataRequest, asked: MetadataRequestTopic, node: Topics
) -> RawResponse | None:
    """What clients ask for most: one topic by its name. None if it is asked for by its id, or is not there."""
    name = asked.name
    if name is None or asked.topic_id != ZERO_UUID or name not in node.image.topics:
        return None
    encoded = node.metadata_cache.encoded(node.image, context.api_version, context.listener)
    plain = not request.include_topic_authorized_operations and not request.include_cluster_authorized_operations
    if plain and context.may_everything:
        return encoded.only_topic(name)
    topic = _topic_by_name(context, request, encoded, name, NOT_HIDDEN)
    return encoded.answer([topic], _cluster_operations(context, request))


async def _all_topics(context: RequestContext, request: MetadataRequest, node: Topics) -> RawResponse:
    encoded = node.metadata_cache.encoded(node.image, context.api_version, context.listener)
    plain = not request.include_topic_authorized_operations and not request.include_cluster_authorized_operations
    if plain and context.may_everything:
        return encoded.all_topics()
    every = list(node.image.topics)
    visible = [name async for name in in_turns(every) if context.may(Operation.DESCRIBE, Resource.topic(name))]
    if plain and len(visible) == len(every):
        return encoded.all_topics()
    topics = [encoded.topic(name, _topic_operations(context, request, name)) async for name in in_turns(visible)]
    return encoded.answer(topics, _cluster_operations(context, request))


def _check(topic: MetadataRequestTopic, version: int) -> None:
    if topic.name is None and topic.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic has neither a name nor an id.")
    if version < IDS_SINCE and (topic.name is None or topic.topic_id != ZERO_UUID):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Version {version} asks for topics by name only.")


async def _create_missing(
    context: RequestContext, request: MetadataRequest, node: Topics, names: Iterable[str]
) -> set[str]:
    """Creates what may be created, and returns the names that the caller may not create."""
    if not request.allow_auto_topic_creation or not node.config.auto_create_topics_enable:
        return set()
    missing = [
        name
        async for name in in_turns(names)
        if name not in node.image.topics
        and name_error(name) is None
        and context.may(Operation.DESCRIBE, Resource.topic(name))
    ]
    if not missing:
        return set()
    allowed = missing
    if not context.may(Operation.CREATE, Resource.cluster()):
        allowed = [name for name in missing if context.may(Operation.CREATE, Resource.topic(name))]
    if allowed:
        await node.automatic_topics.create_for_client(allowed)
    return set(missing).difference(allowed)


def _topic_by_name(
    context: RequestContext, request: MetadataRequest, encoded: EncodedMetadata, name: str, hidden: Set[str]
) -> bytes:
    if name in hidden or not context.may(Operation.DESCRIBE, Resource.topic(name)):
        return encoded.refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    operations = _topic_operations(context, request, name)
    if name in encoded.image.topics:
        return encoded.topic(name, operations)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name_error(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return encoded.refused(error, name, operations=operations, internal=name in INTERNAL_TOPICS)


def _topic_by_id(context: RequestContext, request: MetadataRequest, encoded: EncodedMetadata, topic_id: Uuid) -> bytes:
    name = encoded.image.topic_names.get(topic_id)
    if name is None:
        return encoded.refused(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not context.may(Operation.DESCRIBE, Resource.topic(name)):
        return encoded.refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return encoded.topic(name, _topic_operations(context, request, name))


def _topic_operations(context: RequestContext, request: MetadataRequest, name: str) -> int:
    if not request.include_topic_authorized_operations:
        return OPERATIONS_NOT_ASKED_FOR
    return context.authorized_operations(Resource.topic(name))


def _cluster_operations(context: RequestContext, request: MetadataRequest) -> int:
    if not request.include_cluster_authorized_operations:
        return OPERATIONS_NOT_ASKED_FOR
    if not context.may(Operation.DESCRIBE, Resource.cluster()):
        return 0
    return context.authorized_operations(Resource.cluster())
