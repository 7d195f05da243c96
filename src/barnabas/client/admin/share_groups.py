"""Share groups and where they begin, as an administrator asks the cluster about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.groups import GroupListing
from barnabas.client.admin.refusals import check
from barnabas.client.metadata import BrokerNode, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster


class ShareMember(NamedTuple):
    member_id: str
    host: str
    client_id: str
    epoch: int
    partitions: list[TopicPartition]


class ShareGroupDescription(NamedTuple):
    group: str
    state: str
    coordinator: BrokerNode
    epoch: int
    assignment_epoch: int
    members: list[ShareMember]


class ShareOffset(NamedTuple):
    """None where nobody knows (yet)."""

    topic: str
    partition: int
    leader_epoch: int | None
    start_offset: int | None
    lag: int | None


def list_share_groups(cluster: Cluster, states: Iterable[str] = ()) -> list[GroupListing]:
    from barnabas.wire.messages.list_groups import ListGroupsRequest

    found: dict[str, GroupListing] = {}
    request = ListGroupsRequest(states_filter=list(states), types_filter=["share"])
    for node_id in sorted(cluster.metadata([]).brokers):
        answer = cluster.ask_node(node_id, request)
        check(answer.error_code)
        for each in answer.groups:
            found[each.group_id] = GroupListing(each.group_id, each.protocol_type, each.group_state, "Share")
    return [found[name] for name in sorted(found)]


def describe_share_group(cluster: Cluster, group: str) -> ShareGroupDescription:
    from barnabas.wire.messages.share_group_describe import ShareGroupDescribeRequest

    answer = cluster.ask_coordinator("group", group, ShareGroupDescribeRequest(group_ids=[group]))
    described = answer.groups[0]
    check(described.error_code, described.error_message)
    node_id = cluster.coordinator("group", group)
    members = [
        ShareMember(
            member.member_id,
            member.client_host,
            member.client_id,
            member.member_epoch,
            [(topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions],
        )
        for member in described.members
    ]
    return ShareGroupDescription(
        group,
        described.group_state,
        BrokerNode(node_id, *cluster.connection(node_id).address),
        described.group_epoch,
        described.assignment_epoch,
        members,
    )


def share_offsets(cluster: Cluster, group: str) -> list[ShareOffset]:
    from barnabas.wire.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    answer = cluster.ask_coordinator("group", group, DescribeShareGroupOffsetsRequest(groups=[asked])).groups[0]
    check(answer.error_code, answer.error_message)
    return [
        ShareOffset(
            topic.topic_name,
            part.partition_index,
            part.leader_epoch if part.start_offset >= 0 else None,
            part.start_offset if part.start_offset >= 0 else None,
            part.lag if part.lag >= 0 else None,
        )
        for topic in sorted(answer.topics, key=lambda topic: topic.topic_name)
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    ]


def alter_share_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    from barnabas.wire.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for (name, index), offset in sorted(offsets.items()):
        topic = topics.setdefault(name, AlterShareGroupOffsetsRequestTopic(topic_name=name))
        topic.partitions.append(AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset))
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.values()))
    answer = cluster.ask_coordinator("group", group, request)
    check(answer.error_code, answer.error_message)
    for each in answer.responses:
        for part in each.partitions:
            check(part.error_code, part.error_message)


def delete_share_offsets(cluster: Cluster, group: str, topics: Iterable[str]) -> dict[str, str | None]:
    """Of each topic why it could not be deleted, None where it was."""
    from barnabas.wire.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )

    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    answer = cluster.ask_coordinator("group", group, DeleteShareGroupOffsetsRequest(group_id=group, topics=asked))
    check(answer.error_code, answer.error_message)
    return {each.topic_name: each.error_message if each.error_code else None for each in answer.responses}
