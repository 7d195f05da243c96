"""What a heartbeat of a streams group says, in the terms of the group; and whether it can be right."""

from __future__ import annotations

from barnabas.core.groups.streams.tasks import TaskRoles, tasks_of
from barnabas.core.groups.streams.topology import ConfiguredTopology, Topology
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import streams_group_heartbeat as asked
from barnabas.wire.records import streams_groups as wire


def owned_tasks(request: asked.StreamsGroupHeartbeatRequest) -> TaskRoles | None:
    """None if the member does not say what it owns."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TaskRoles(tasks_of(request.active_tasks), tasks_of(request.standby_tasks), tasks_of(request.warmup_tasks))


def check_tasks(owned: TaskRoles | None, configured: ConfiguredTopology) -> None:
    """Whether the topology has these tasks."""
    subtopologies = configured.subtopologies or {}
    for role in owned or ():
        for subtopology_id, partitions in role.items():
            known = subtopologies.get(subtopology_id)
            if known is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Subtopology {subtopology_id} does not exist in the topology."
                )
            wrong = [each for each in partitions if not 0 <= each < known.tasks]
            if wrong:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {wrong[0]} for subtopology {subtopology_id} is invalid. Number of tasks for this"
                    f" subtopology: {known.tasks}",
                )


def topology_of(topology: asked.Topology) -> Topology:
    ids = [each.subtopology_id for each in topology.subtopologies]
    if topology.epoch < 0:
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Topology epoch must be non-negative.")
    if len(set(ids)) < len(ids):
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Two subtopologies have the same id.")
    subtopologies = [_subtopology(each) for each in topology.subtopologies]
    return Topology(wire.StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=subtopologies))


def _subtopology(each: asked.Subtopology) -> wire.Subtopology:
    return wire.Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=each.source_topics,
        source_topic_regex=each.source_topic_regex,
        state_changelog_topics=[_topic_info(info) for info in each.state_changelog_topics],
        repartition_sink_topics=each.repartition_sink_topics,
        repartition_source_topics=[_topic_info(info) for info in each.repartition_source_topics],
        copartition_groups=[
            wire.CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in each.copartition_groups
        ],
    )


def _topic_info(info: asked.TopicInfo) -> wire.TopicInfo:
    return wire.TopicInfo(
        name=info.name,
        partitions=info.partitions,
        replication_factor=info.replication_factor,
        topic_configs=[wire.TopicConfig(key=each.key, value=each.value) for each in info.topic_configs],
    )
