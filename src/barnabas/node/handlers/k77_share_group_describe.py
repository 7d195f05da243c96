"""ShareGroupDescribe, version 1: state, epochs, members and assignments of share groups.

Deviations from Kafka: none known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.groups.java_order import timeline_ordered
from barnabas.core.groups.share.group import ShareGroup
from barnabas.node.handlers.group_descriptions import Describing, committed_group, describe_groups, named_partitions
from barnabas.node.handlers.group_protocols import require_share_protocol
from barnabas.node.requests import RequestContext
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
    describing = Describing(require_share_protocol, _describe, _topics)
    return ShareGroupDescribeResponse(groups=await describe_groups(context, request, node, DescribedGroup, describing))


def _topics(group: DescribedGroup) -> Iterable[str]:
    return (each.topic_name for member in group.members for each in member.assignment.topic_partitions)


def _describe(group_id: str, node: Groups) -> DescribedGroup:
    group = committed_group(group_id, node, ShareGroup)
    names, epochs = node.image.topic_names, group.committed_epochs
    members = dict(group.members.committed_items())
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
                assignment=Assignment(topic_partitions=named_partitions(member.assigned, names, TopicPartitions)),
            )
            for member in map(members.__getitem__, timeline_ordered(members))
        ],
    )
