"""ShareGroupDescribe, version 1: state, epochs, members and assignments of share groups.

Deviations from Kafka: none known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.group_protocols import require_share_protocol
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

ASSIGNOR = "simple"


async def handle(
    context: RequestContext, request: ShareGroupDescribeRequest, node: Groups
) -> ShareGroupDescribeResponse:
    groups = []
    async for group_id in in_turns(request.group_ids):
        try:
            require_share_protocol(node)
            context.authorize(Operation.DESCRIBE, Resource.group(group_id))
            described = _describe(group_id, node)
            topics = {each.topic_name for member in described.members for each in member.assignment.topic_partitions}
            if any(not context.may(Operation.DESCRIBE, Resource.topic(topic)) for topic in topics):
                raise KafkaError(
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    "The group has described topic(s) that the client is not authorized to describe.",
                )
            if request.include_authorized_operations:
                described.authorized_operations = context.authorized_operations(Resource.group(group_id))
        except KafkaError as error:
            message = error.message or None
            described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)
        groups.append(described)
    return ShareGroupDescribeResponse(groups=groups)


def _describe(group_id: str, node: Groups) -> DescribedGroup:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = node.groups.shard_for(group_id).committed_group(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    names, epochs = node.image.topic_names, group.committed_epochs
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=epochs.group,
        assignment_epoch=epochs.assignment,
        assignor_name=ASSIGNOR,
        members=[
            Member(
                member_id=member.id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topics),
                assignment=Assignment(
                    topic_partitions=[
                        TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(each))
                        for topic_id, each in member.assigned.items()
                        if topic_id in names
                    ]
                ),
            )
            for _, member in group.members.committed_items()
        ],
    )
