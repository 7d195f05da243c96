"""Groups and their offsets, as an administrator asks the cluster about them.

A group of the consumer protocol is described by an API of its own; whoever does not know that API, or finds no such
group with it, is asked for a classic one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client import offsets
from barnabas.client.errors import ClientError, Refused, UnsupportedByBroker
from barnabas.client.metadata import BrokerNode, TopicPartition
from barnabas.client.offsets import CommittedOffset
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

CONSUMER = "consumer"
DEAD = "Dead"
EMPTY = "Empty"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
STATES = (*REBALANCING[:2], "Stable", DEAD, EMPTY, "Assigning", "Reconciling")


class GroupListing(NamedTuple):
    group: str
    protocol_type: str
    state: str
    type: str


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]
    epoch: int | None = None
    target: list[TopicPartition] | None = None
    upgraded: bool | None = None


class GroupDescription(NamedTuple):
    group: str
    type: str
    state: str
    assignor: str
    coordinator: BrokerNode
    members: list[GroupMember]
    epoch: int | None = None
    target_epoch: int | None = None
    why_dead: str = ""
    protocol_type: str = "consumer"  # empty where offsets were committed and nobody was ever a member


class OffsetRow(NamedTuple):
    group: str
    topic: str | None
    partition: int | None
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


def list_groups(cluster: Cluster, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
    """Groups of every coordinator, sorted by name; consumers only, as Kafka's tool for consumer groups shows them."""
    from barnabas.wire.messages.list_groups import ListGroupsRequest

    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: dict[str, GroupListing] = {}
    for node_id in sorted(cluster.metadata([]).brokers):
        answer = cluster.ask_node(node_id, request)
        if answer.error_code:
            raise Refused(answer.error_code, f"Node {node_id} does not list its groups")
        for group in answer.groups:
            if group.group_type not in ("share", "streams") and group.protocol_type in ("", CONSUMER):
                kind = (group.group_type or "classic").capitalize()
                found[group.group_id] = GroupListing(group.group_id, group.protocol_type, group.group_state, kind)
    return [found[name] for name in sorted(found)]


def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """A group that does not exist, or is of a kind that nobody consumes with, is described too: as dead, without
    members."""
    described = _describe_consumer(cluster, group)
    return _describe_classic(cluster, group, described) if isinstance(described, str) else described


def _coordinator(cluster: Cluster, group: str) -> BrokerNode:
    node_id = cluster.coordinator("group", group)
    return BrokerNode(node_id, *cluster.connection(node_id).address)


def _describe_consumer(cluster: Cluster, group: str) -> GroupDescription | str:
    """Or why it is none."""
    from barnabas.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    try:
        answer = cluster.ask_coordinator("group", group, ConsumerGroupDescribeRequest(group_ids=[group]))
    except UnsupportedByBroker:
        return ""
    described = answer.groups[0]
    if described.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return described.error_message or ""
    _check(described.error_code, described.error_message, group)
    members = [
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _named_partitions(member.assignment),
            member.member_epoch,
            _named_partitions(member.target_assignment),
            None if member.member_type < 0 else bool(member.member_type),
        )
        for member in described.members
    ]
    return GroupDescription(
        group,
        "Consumer",
        described.group_state,
        described.assignor_name,
        _coordinator(cluster, group),
        members,
        described.group_epoch,
        described.assignment_epoch,
    )


def _named_partitions(assignment: Any) -> list[TopicPartition]:
    return [(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions]


def _describe_classic(cluster: Cluster, group: str, otherwise: str) -> GroupDescription:
    from barnabas.wire.messages.describe_groups import DescribeGroupsRequest

    described = cluster.ask_coordinator("group", group, DescribeGroupsRequest(groups=[group])).groups[0]
    coordinator = _coordinator(cluster, group)
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return GroupDescription(group, "Classic", DEAD, "", coordinator, [], why_dead=otherwise, protocol_type="")
    _check(described.error_code, described.error_message, group)
    members = [
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            assigned_partitions(member.member_assignment),
        )
        for member in described.members
    ]
    return GroupDescription(
        group,
        "Classic",
        described.group_state,
        described.protocol_data,
        coordinator,
        members,
        protocol_type=described.protocol_type,
    )


def assigned_partitions(assignment: bytes) -> list[TopicPartition]:
    """What a member of a classic group was assigned; nothing where that is not of the consumers' protocol."""
    from barnabas.wire.codec import DecodeError
    from barnabas.wire.records.consumer_protocol import ConsumerProtocolAssignment

    if len(assignment) < 2:
        return []
    version = int.from_bytes(assignment[:2], "big", signed=True)
    newest = ConsumerProtocolAssignment.valid_versions[1]
    try:
        assigned, _ = ConsumerProtocolAssignment.decode_from(assignment, 2, min(max(version, 0), newest))
    except DecodeError:
        return []
    return [(topic.topic, index) for topic in assigned.assigned_partitions for index in topic.partitions]


def committed_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, CommittedOffset]:
    """All that the group has committed and nobody deleted."""
    try:
        return dict(sorted(offsets.committed_offsets(cluster, group).items()))
    except Refused as refusal:
        if refusal.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise


def commit_offsets(cluster: Cluster, group: str, chosen: Mapping[TopicPartition, int]) -> None:
    """As nobody's member: only a group without members takes them."""
    offsets.commit_offsets(cluster, group, {partition: CommittedOffset(at) for partition, at in chosen.items()})


def delete_group(cluster: Cluster, group: str) -> ErrorCode:
    from barnabas.wire.messages.delete_groups import DeleteGroupsRequest

    try:
        answer = cluster.ask_coordinator("group", group, DeleteGroupsRequest(groups_names=[group]))
    except Refused as refusal:
        return refusal.code
    return ErrorCode(answer.results[0].error_code)


def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
    """The group's own error, and that of each partition."""
    from barnabas.wire.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for topic, partition in partitions:
        entry = topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic))
        entry.partitions.append(OffsetDeleteRequestPartition(partition_index=partition))
    answer = cluster.ask_coordinator("group", group, OffsetDeleteRequest(group_id=group, topics=list(topics.values())))
    results = {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }
    return ErrorCode(answer.error_code), results


def log_ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The log end offsets of those partitions that exist and have a leader that answers."""
    wanted = list(partitions)
    known = {topic: cluster.topic(topic) for topic, _ in wanted}
    if any(index not in known[topic].partitions for topic, index in wanted):
        known |= cluster.metadata(known).topics
    there = {
        (topic, index): -1
        for topic, index in wanted
        if index in known[topic].partitions and known[topic].partitions[index].leader >= 0
    }
    try:
        return {partition: at.offset for partition, at in cluster.list_offsets(there).items()} if there else {}
    except ClientError:
        return _one_by_one(cluster, there)


def _one_by_one(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for partition, at in wanted.items():
        try:
            found[partition] = cluster.list_offsets({partition: at})[partition].offset
        except Refused:
            continue
    return found


def offset_rows(cluster: Cluster, description: GroupDescription) -> list[OffsetRow]:
    """Members with the most partitions first, then what has an offset and no member. Who has none is left out."""
    committed = committed_offsets(cluster, description.group)
    assigned = {partition for member in description.members for partition in member.partitions}
    ends = log_ends(cluster, sorted(assigned | committed.keys()))

    def row(partition: TopicPartition, member: tuple[str | None, str | None, str | None]) -> OffsetRow:
        at, end = committed.get(partition), ends.get(partition)
        lag = end - at.offset if at is not None and end is not None else None
        epoch = at.leader_epoch if at is not None and at.leader_epoch >= 0 else None
        return OffsetRow(description.group, *partition, epoch, at.offset if at else None, end, lag, *member)

    rows: list[OffsetRow] = []
    for member in sorted(description.members, key=lambda member: -len(member.partitions)):
        of = (member.member_id, member.host, member.client_id)
        rows += [row(partition, of) for partition in sorted(member.partitions)]
    rows += [row(partition, (None, None, None)) for partition in committed if partition not in assigned]
    return rows


def _check(code: int, message: str | None, group: str) -> None:
    if code:
        raise Refused(code, message or f"Group {group} cannot be asked about")
