"""Streams groups, as an administrator asks the cluster about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.admin.groups import GroupListing, committed_offsets
from barnabas.client.admin.refusals import check
from barnabas.client.metadata import BrokerNode, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

EARLIEST, LATEST = -2, -1
# Partitions by subtopology.
Tasks = dict[str, list[int]]


class StreamsAssignment(NamedTuple):
    active: Tasks
    standby: Tasks
    warmup: Tasks


class StreamsMember(NamedTuple):
    member_id: str
    process_id: str
    client_id: str
    epoch: int
    is_classic: bool
    assignment: StreamsAssignment
    target: StreamsAssignment


class StreamsSubtopology(NamedTuple):
    id: str
    source_topics: list[str]
    repartition_source_topics: list[str]
    state_changelog_topics: list[str]

    @property
    def sources(self) -> list[str]:
        return [*self.source_topics, *self.repartition_source_topics]


class StreamsGroupDescription(NamedTuple):
    group: str
    state: str
    coordinator: BrokerNode
    epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: list[StreamsSubtopology]
    members: list[StreamsMember]

    @property
    def source_topics(self) -> set[str]:
        """Those that users made."""
        return {name for each in self.subtopologies for name in each.source_topics}

    @property
    def internal_topics(self) -> list[str]:
        named = [
            name
            for each in self.subtopologies
            for name in (*each.repartition_source_topics, *each.state_changelog_topics)
        ]
        return [name for name in dict.fromkeys(named) if name not in self.source_topics]


class StreamsOffset(NamedTuple):
    """None where nothing is committed."""

    topic: str
    partition: int
    current_offset: int | None
    leader_epoch: int | None
    log_end_offset: int
    lag: int


def list_streams_groups(cluster: Cluster, states: Iterable[str] = ()) -> list[GroupListing]:
    from barnabas.wire.messages.list_groups import ListGroupsRequest

    found: dict[str, GroupListing] = {}
    request = ListGroupsRequest(states_filter=list(states), types_filter=["streams"])
    for node_id in sorted(cluster.metadata([]).brokers):
        answer = cluster.ask_node(node_id, request)
        check(answer.error_code)
        for each in answer.groups:
            found[each.group_id] = GroupListing(each.group_id, each.protocol_type, each.group_state, "Streams")
    return [found[name] for name in sorted(found)]


def describe_streams_group(cluster: Cluster, group: str) -> StreamsGroupDescription:
    from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

    described = cluster.ask_coordinator("group", group, StreamsGroupDescribeRequest(group_ids=[group])).groups[0]
    check(described.error_code, described.error_message)
    node_id, topology = cluster.coordinator("group", group), described.topology
    return StreamsGroupDescription(
        group,
        described.group_state,
        BrokerNode(node_id, *cluster.connection(node_id).address),
        described.group_epoch,
        described.assignment_epoch,
        topology.epoch if topology is not None else -1,
        [_subtopology(each) for each in (topology.subtopologies or () if topology is not None else ())],
        [_member(each) for each in described.members],
    )


def _subtopology(each: Any) -> StreamsSubtopology:
    return StreamsSubtopology(
        each.subtopology_id,
        each.source_topics,
        [info.name for info in each.repartition_source_topics],
        [info.name for info in each.state_changelog_topics],
    )


def _member(each: Any) -> StreamsMember:
    return StreamsMember(
        each.member_id,
        each.process_id,
        each.client_id,
        each.member_epoch,
        each.is_classic,
        _assignment(each.assignment),
        _assignment(each.target_assignment),
    )


def _assignment(assignment: Any) -> StreamsAssignment:
    roles = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return StreamsAssignment(*({each.subtopology_id: each.partitions for each in role} for role in roles))


def streams_offsets(cluster: Cluster, description: StreamsGroupDescription) -> list[StreamsOffset]:
    """Of the partitions that members read now."""
    sources = {each.id: each.sources for each in description.subtopologies}
    partitions: set[TopicPartition] = {
        (topic, at)
        for member in description.members
        for subtopology, tasks in member.assignment.active.items()
        for topic in sources.get(subtopology, ())
        for at in tasks
    }
    if not partitions:
        return []
    starts = cluster.list_offsets(dict.fromkeys(sorted(partitions), EARLIEST))
    ends = cluster.list_offsets(dict.fromkeys(sorted(partitions), LATEST))
    committed = committed_offsets(cluster, description.group)
    rows = []
    for at in sorted(partitions):
        found, end = committed.get(at), ends[at].offset
        current = None if found is None else found.offset
        epoch = None if found is None or found.leader_epoch < 0 else found.leader_epoch
        lag = end - (starts[at].offset if current is None else current)
        rows.append(StreamsOffset(*at, current, epoch, end, lag))
    return rows
