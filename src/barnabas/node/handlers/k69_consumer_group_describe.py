"""ConsumerGroupDescribe, versions 0 and 1: state, epochs, members and assignments of consumer groups.

1 brought which protocol a member speaks. Deviations from Kafka: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.core.groups.modern import Target, most_wanted
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.group_protocols import require_consumer_protocol
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


async def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest, node: Groups
) -> ConsumerGroupDescribeResponse:
    groups = []
    async for group_id in in_turns(request.group_ids):
        try:
            require_consumer_protocol(node)
            context.authorize(Operation.DESCRIBE, Resource.group(group_id))
            described = _describe(group_id, node)
            _require_visible(context, described)
            if request.include_authorized_operations:
                described.authorized_operations = context.authorized_operations(Resource.group(group_id))
        except KafkaError as error:
            message = error.message or None
            described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)
        groups.append(described)
    return ConsumerGroupDescribeResponse(groups=groups)


def _require_visible(context: RequestContext, group: DescribedGroup) -> None:
    """Clients are not told of topics that they may not describe."""
    topics = {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }
    if any(not context.may(Operation.DESCRIBE, Resource.topic(topic)) for topic in topics):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )


def _describe(group_id: str, node: Groups) -> DescribedGroup:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = node.groups.shard_for(group_id).committed_group(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    members = [member for _, member in group.members.committed_items()]
    epochs = group.committed_epochs
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=epochs.group,
        assignment_epoch=epochs.assignment,
        assignor_name=most_wanted(each.assignor for each in members)
        or node.groups.consumer_settings(group_id).assignors[0],
        members=[_member(each, group.targets.committed(each.id) or {}, node.image) for each in members],
    )


def _member(member: ConsumerMember, target: Target, image: MetadataImage) -> Member:
    held: dict[Uuid, list[int]] = {}
    for partitions in (member.assigned, member.revoking):
        for topic_id, each in partitions.items():
            held.setdefault(topic_id, []).extend(each)
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(held.items(), image),
        target_assignment=_assignment(target.items(), image),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Iterable[tuple[Uuid, Iterable[int]]], image: MetadataImage) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=image.topic_names[topic_id], partitions=sorted(each))
            for topic_id, each in partitions
            if topic_id in image.topic_names
        ]
    )
