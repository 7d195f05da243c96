"""StreamsGroupDescribe, version 0: state, epochs, topology, members and tasks of streams groups.

Deviations from Kafka: none known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.core.groups.java_order import timeline_ordered
from barnabas.core.groups.streams.group import StreamsGroup
from barnabas.core.groups.streams.member import StreamsMember
from barnabas.core.groups.streams.tasks import NOTHING, AssignedTasks, TaskRoles
from barnabas.core.groups.streams.topology import ConfiguredTopology, InternalTopic
from barnabas.core.groups.streams.topology import Topology as DeclaredTopology
from barnabas.node.handlers.group_descriptions import Describing, committed_group, describe_groups
from barnabas.node.handlers.group_protocols import require_streams_protocol
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from barnabas.wire.records import streams_groups as wire

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."


async def handle(
    context: RequestContext, request: StreamsGroupDescribeRequest, node: Groups
) -> StreamsGroupDescribeResponse:
    describing = Describing(require_streams_protocol, _describe, _topics, HIDDEN_TOPICS)
    return StreamsGroupDescribeResponse(
        groups=await describe_groups(context, request, node, DescribedGroup, describing)
    )


def _topics(group: DescribedGroup) -> Iterable[str]:
    for each in group.topology.subtopologies or () if group.topology is not None else ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (info.name for info in (*each.repartition_source_topics, *each.state_changelog_topics))


def _describe(group_id: str, node: Groups) -> DescribedGroup:
    group = committed_group(group_id, node, StreamsGroup)
    epochs, configured = group.committed_epochs, group.configured
    declared = group.committed_topology
    members = dict(group.members.committed_items())
    topology = None
    if configured is not None and configured.is_ready:
        topology = _configured(configured)
    elif declared is not None:
        topology = _declared(declared)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=epochs.group,
        assignment_epoch=epochs.assignment,
        topology=topology,
        members=[
            _member(member, group.targets.committed(member.id) or NOTHING)
            for member in map(members.__getitem__, timeline_ordered(members))
        ],
    )


def _declared(topology: DeclaredTopology) -> Topology:
    """As the application said: partitions that follow from others are 0."""
    subtopologies = [
        Subtopology(
            subtopology_id=subtopology_id,
            source_topics=sorted(each.source_topics),
            repartition_sink_topics=sorted(each.repartition_sink_topics),
            repartition_source_topics=_infos(map(_internal, each.repartition_source_topics)),
            state_changelog_topics=_infos(map(_internal, each.state_changelog_topics)),
        )
        for subtopology_id, each in sorted(topology.subtopologies.items())
    ]
    return Topology(epoch=topology.epoch, subtopologies=subtopologies)


def _internal(info: wire.TopicInfo) -> InternalTopic:
    configs = {each.key: each.value for each in info.topic_configs}
    return InternalTopic(info.name, info.partitions, info.replication_factor, configs)


def _configured(topology: ConfiguredTopology) -> Topology:
    subtopologies = [
        Subtopology(
            subtopology_id=subtopology_id,
            source_topics=sorted(each.source_topics),
            repartition_sink_topics=sorted(each.repartition_sink_topics),
            repartition_source_topics=_infos(each.repartition_source_topics.values()),
            state_changelog_topics=_infos(each.state_changelog_topics.values()),
        )
        for subtopology_id, each in (topology.subtopologies or {}).items()
    ]
    return Topology(epoch=topology.epoch, subtopologies=subtopologies)


def _infos(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs.items()],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member: StreamsMember, target: TaskRoles) -> Member:
    endpoint = member.user_endpoint
    return Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: AssignedTasks | TaskRoles) -> Assignment:
    return Assignment(
        active_tasks=_listed(tasks.active),
        standby_tasks=_listed(tasks.standby),
        warmup_tasks=_listed(tasks.warmup),
    )


def _listed(tasks: Mapping[str, Collection[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]
