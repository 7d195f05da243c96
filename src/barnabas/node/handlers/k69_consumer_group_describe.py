"""ConsumerGroupDescribe, versions 0 and 1: state, epochs, members and assignments of consumer groups.

1 brought which protocol a member speaks. Deviations from Kafka: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.core.groups.java_order import timeline_ordered
from barnabas.core.groups.modern import Target, most_wanted
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.handlers.group_descriptions import Describing, committed_group, describe_groups, named_partitions
from barnabas.node.handlers.group_protocols import require_consumer_protocol
from barnabas.node.requests import RequestContext
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
    describing = Describing(require_consumer_protocol, _describe, _topics)
    return ConsumerGroupDescribeResponse(
        groups=await describe_groups(context, request, node, DescribedGroup, describing)
    )


def _topics(group: DescribedGroup) -> Iterable[str]:
    return (
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    )


def _describe(group_id: str, node: Groups) -> DescribedGroup:
    group = committed_group(group_id, node, ConsumerGroup)
    known = dict(group.members.committed_items())
    members = [known[each] for each in timeline_ordered(known)]
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
    names = image.topic_names
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=Assignment(topic_partitions=named_partitions(held, names, TopicPartitions)),
        target_assignment=Assignment(topic_partitions=named_partitions(target, names, TopicPartitions)),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )
