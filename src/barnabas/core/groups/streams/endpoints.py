"""Which partitions the members of a streams group that answer queries have, by their endpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.streams.member import StreamsMember
from barnabas.core.groups.streams.topology import ConfiguredSubtopology, ConfiguredTopology
from barnabas.wire.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, cluster: Cluster
) -> list[EndpointToPartitions]:
    subtopologies = configured.subtopologies or {}
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member.assigned.active, subtopologies, cluster),
            standby_partitions=_partitions(member.assigned.standby, subtopologies, cluster),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> list[TopicPartition]:
    """A topic with fewer partitions than the member has tasks is read by the first of them."""
    return [
        TopicPartition(topic=name, partitions=sorted(partitions)[: len(cluster.topics[name].partitions)])
        for subtopology_id, partitions in tasks.items()
        if subtopology_id in subtopologies
        for name in subtopologies[subtopology_id].sources
        if name in cluster.topics
    ]
