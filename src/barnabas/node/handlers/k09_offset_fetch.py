"""OffsetFetch, versions 1 to 10: how far groups have come.

2 brought all offsets of a group (no topics named), 5 leader epochs, 7 stable offsets only, 8 several groups, 9 member
epochs of the consumer protocol, 10 topic ids. Deviations from Kafka: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.core.coordinator.decision import Decision
from barnabas.core.groups.commits import Fetched
from barnabas.core.security.model import Operation, Resource
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode
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
    from barnabas.node.ports import Groups

ERROR_AT_TOP = 2
SEVERAL_GROUPS = 8
TOPIC_IDS = 10
FETCHED_AT_ONCE = 1_000
NO_OFFSET = -1
NO_EPOCH = -1


async def handle(context: RequestContext, request: OffsetFetchRequest, node: Groups) -> OffsetFetchResponse:
    if context.api_version >= SEVERAL_GROUPS:
        stable = request.require_stable
        groups = [await _fetch(context, group, stable, node) async for group in in_turns(request.groups)]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            async for each in in_turns(request.topics)
        ]
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return await _as_before(context, asked, await _fetch(context, asked, request.require_stable, node))


async def _as_before(
    context: RequestContext, asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """The answer of versions that know one group only; the first of them has errors per partition only."""
    if group.error_code and context.api_version < ERROR_AT_TOP:
        group.topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    _partition(index, None, ErrorCode(group.error_code))
                    async for index in in_turns(topic.partition_indexes)
                ],
            )
            async for topic in in_turns(asked.topics or ())
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
                async for each in in_turns(topic.partitions)
            ],
        )
        async for topic in in_turns(group.topics)
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


async def _fetch(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool, node: Groups
) -> OffsetFetchResponseGroup:
    try:
        context.authorize(Operation.DESCRIBE, Resource.group(group.group_id))
        if group.topics is None:
            fetched = await _offsets(group, None, require_stable, node)
            return OffsetFetchResponseGroup(group_id=group.group_id, topics=await _all(context, fetched, node))
        topics = await _some(context, group, group.topics, require_stable, node)
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
    except Exception as error:
        refusal = item_error(error, "the offsets of a group")
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=refusal.code)


async def _offsets(
    group: OffsetFetchRequestGroup, wanted: Sequence[tuple[str, int]] | None, require_stable: bool, node: Groups
) -> list[Fetched]:
    if wanted is not None and len(wanted) > FETCHED_AT_ONCE:
        fetched: list[Fetched] = []
        async for start in in_turns(range(0, len(wanted), FETCHED_AT_ONCE)):
            fetched += await _offsets(group, wanted[start : start + FETCHED_AT_ONCE], require_stable, node)
        return fetched
    group_id, member_id, epoch = group.group_id, group.member_id, group.member_epoch
    if not require_stable:
        commits = node.groups.shard_for(group_id).commits
        return commits.fetch(group_id, wanted, stable=False, member_id=member_id, member_epoch=epoch)
    return await node.groups.submit(
        group_id,
        lambda shard: Decision(
            [], shard.commits.fetch(group_id, wanted, stable=True, member_id=member_id, member_epoch=epoch)
        ),
    )


async def _all(context: RequestContext, fetched: list[Fetched], node: Groups) -> list[OffsetFetchResponseTopics]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    async for each in in_turns(fetched):
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
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    asked: list[OffsetFetchRequestTopics],
    require_stable: bool,
    node: Groups,
) -> list[OffsetFetchResponseTopics]:
    found = [(topic, *_find_topic(context, topic, node)) async for topic in in_turns(asked)]
    found.sort(key=lambda each: each[2] is not ErrorCode.NONE)  # as Kafka answers: the refused topics last
    wanted = [
        (name, index)
        async for topic, name, error in in_turns(found)
        if error is ErrorCode.NONE
        for index in topic.partition_indexes
    ]
    fetched = iter(await _offsets(group, wanted, require_stable, node))
    answers = []
    async for topic, _, error in in_turns(found):
        partitions = [
            _partition(index, next(fetched) if error is ErrorCode.NONE else None, error)
            async for index in in_turns(topic.partition_indexes)
        ]
        answers.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return answers


def _find_topic(context: RequestContext, topic: OffsetFetchRequestTopics, node: Groups) -> tuple[str, ErrorCode]:
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
