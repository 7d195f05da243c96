"""OffsetFetch, versions 1 to 10: how far groups have come.

2 brought all offsets of a group (no topics named), 5 leader epochs, 7 stable offsets only, 8 several groups, 9 member
epochs of the consumer protocol, 10 topic ids. Deviations from Kafka: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.coordinator.decision import Decision
from barnabas.core.groups.commits import Fetched
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node

ERROR_AT_TOP = 2
SEVERAL_GROUPS = 8
TOPIC_IDS = 10
NO_OFFSET = -1
NO_EPOCH = -1


async def handle(context: RequestContext, request: OffsetFetchRequest, node: Node) -> OffsetFetchResponse:
    if context.api_version >= SEVERAL_GROUPS:
        groups = [await _fetch(context, group, request.require_stable, node) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return _as_before(context, asked, await _fetch(context, asked, request.require_stable, node))


def _as_before(
    context: RequestContext, asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """The answer of versions that know one group only; the first of them has errors per partition only."""
    if group.error_code and context.api_version < ERROR_AT_TOP:
        group.topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[_partition(index, None, ErrorCode(group.error_code)) for index in topic.partition_indexes],
            )
            for topic in asked.topics or ()
        ]
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


async def _fetch(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool, node: Node
) -> OffsetFetchResponseGroup:
    try:
        context.authorize(Operation.DESCRIBE, Resource.group(group.group_id))
        if group.topics is None:
            fetched = await _offsets(group.group_id, None, require_stable, node)
            return OffsetFetchResponseGroup(group_id=group.group_id, topics=_all(context, fetched, node))
        topics = await _some(context, group.group_id, group.topics, require_stable, node)
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)


async def _offsets(
    group_id: str, wanted: Iterable[tuple[str, int]] | None, require_stable: bool, node: Node
) -> list[Fetched]:
    if not require_stable:
        return node.groups.shard_for(group_id).commits.fetch(group_id, wanted, stable=False)
    return await node.groups.submit(
        group_id, lambda shard: Decision([], shard.commits.fetch(group_id, wanted, stable=True))
    )


def _all(context: RequestContext, fetched: list[Fetched], node: Node) -> list[OffsetFetchResponseTopics]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for each in fetched:
        if not context.may(Operation.DESCRIBE, Resource.topic(each.topic)):
            continue
        known = node.image.topics.get(each.topic)
        if known is None and context.api_version >= TOPIC_IDS:
            continue
        answer = topics.get(each.topic)
        if answer is None:
            answer = topics[each.topic] = OffsetFetchResponseTopics(name=each.topic)
            if known is not None:
                answer.topic_id = known.topic_id
        answer.partitions.append(_partition(each.partition, each))
    return list(topics.values())


async def _some(
    context: RequestContext, group_id: str, asked: list[OffsetFetchRequestTopics], require_stable: bool, node: Node
) -> list[OffsetFetchResponseTopics]:
    found = [(topic, *_find_topic(context, topic, node)) for topic in asked]
    wanted = [
        (name, index) for topic, name, error in found if error is ErrorCode.NONE for index in topic.partition_indexes
    ]
    fetched = iter(await _offsets(group_id, wanted, require_stable, node))
    answers = []
    for topic, _, error in found:
        partitions = [
            _partition(index, next(fetched) if error is ErrorCode.NONE else None, error)
            for index in topic.partition_indexes
        ]
        answers.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return answers


def _find_topic(context: RequestContext, topic: OffsetFetchRequestTopics, node: Node) -> tuple[str, ErrorCode]:
    name: str | None = topic.name
    if context.api_version >= TOPIC_IDS:
        name = node.image.topic_names.get(topic.topic_id)
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
    assert name is not None
    if not context.may(Operation.DESCRIBE, Resource.topic(name)):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, ErrorCode.NONE


def _partition(index: int, fetched: Fetched | None, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    committed = fetched.committed if fetched is not None else None
    if fetched is not None:
        error = fetched.error
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_OFFSET,
            committed_leader_epoch=NO_EPOCH,
            metadata="",
            error_code=error,
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )
