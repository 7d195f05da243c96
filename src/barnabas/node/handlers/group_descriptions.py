"""What the descriptions of consumer, share and streams groups have in common: each group is found, described, and left
out if the caller may not see it or its topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from barnabas.core.groups.kinds import G
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class DescribeRequest(Protocol):
    @property
    def group_ids(self) -> list[str]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


class Description(Protocol):
    authorized_operations: int


D = TypeVar("D", bound=Description)
P = TypeVar("P")


class Describing(NamedTuple):
    """How one kind of group is described."""

    require_protocol: Callable[[Groups], None]
    describe: Callable[[str, Groups], Any]
    # The topics that a description names.
    topics: Callable[[Any], Iterable[str]]
    hidden_topics: str = HIDDEN_TOPICS


async def describe_groups(
    context: RequestContext, request: DescribeRequest, node: Groups, kind: type[D], describing: Describing
) -> list[D]:
    """`kind` is the message's class of a described group."""
    groups: list[D] = []
    async for group_id in in_turns(request.group_ids):
        try:
            describing.require_protocol(node)
            if not context.may(Operation.DESCRIBE, Resource.group(group_id)):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            described: D = describing.describe(group_id, node)
            topics = set(describing.topics(described))
            if any(not context.may(Operation.DESCRIBE, Resource.topic(topic)) for topic in topics):
                # Clients are not told of topics that they may not describe.
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, describing.hidden_topics)
            if request.include_authorized_operations:
                described.authorized_operations = context.authorized_operations(Resource.group(group_id))
        except KafkaError as error:
            described = kind(group_id=group_id, error_code=error.code, error_message=error.message or None)  # type: ignore[call-arg]
        groups.append(described)
    return groups


def committed_group(group_id: str, node: Groups, kind: type[G]) -> G:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = node.groups.shard_for(group_id).committed_group(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, kind):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.type.value} group.")
    return group


def named_partitions(
    partitions: Mapping[Uuid, Iterable[int]], names: Mapping[Uuid, str], kind: Callable[..., P]
) -> list[P]:
    """Of the topics that still exist; `kind` is the message's class of a topic with partitions."""
    return [
        kind(topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(each))
        for topic_id, each in partitions.items()
        if topic_id in names
    ]
