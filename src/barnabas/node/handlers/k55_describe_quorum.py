"""DescribeQuorum, versions 0 to 2: who leads the metadata log, and how far each of its replicas is.

1 brought the times of the last fetches, 2 directory ids, error messages and the voters' endpoints. Asked for anything
but the one partition of the metadata, all that was asked for is unknown. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.topic_names import CLUSTER_METADATA_TOPIC
from barnabas.core.security.model import Operation, Resource
from barnabas.node.raft.quorum import Quorum, QuorumReplica
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import describe_quorum as wire

if TYPE_CHECKING:
    from barnabas.core.metadata.state import MetadataImage
    from barnabas.node.controller.cluster import Cluster

DIRECTORIES_SINCE = 2


def decide(
    context: RequestContext, request: wire.DescribeQuorumRequest, cluster: Cluster
) -> ControllerDecision[wire.DescribeQuorumResponse]:
    context.authorize(Operation.DESCRIBE, Resource.cluster())
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        return ControllerDecision(
            [], wire.DescribeQuorumResponse(topics=[_unknown(name, indexes) for name, indexes in asked])
        )
    quorum = cluster.quorum()
    partition = wire.ResponsePartitionData(
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_replica(each, context.api_version) for each in quorum.voters],
        observers=[_replica(each, context.api_version) for each in quorum.observers],
    )
    topic = wire.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    response = wire.DescribeQuorumResponse(topics=[topic])
    if context.api_version >= DIRECTORIES_SINCE:
        response.nodes = _nodes(quorum, cluster.image)
    return ControllerDecision([], response)


def _unknown(name: str, indexes: list[int]) -> wire.ResponseTopicData:
    partitions = [
        wire.ResponsePartitionData(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"Only {CLUSTER_METADATA_TOPIC}-0 has a quorum, and it is asked for alone.",
        )
        for index in indexes
    ]
    return wire.ResponseTopicData(topic_name=name, partitions=partitions)


def _replica(replica: QuorumReplica, version: int) -> wire.ReplicaState:
    state = wire.ReplicaState(
        replica_id=replica.replica_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_timestamp_ms,
        last_caught_up_timestamp=replica.last_caught_up_timestamp_ms,
    )
    if version >= DIRECTORIES_SINCE:
        state.replica_directory_id = replica.directory_id
    return state


def _nodes(quorum: Quorum, image: MetadataImage) -> list[wire.Node]:
    """Where the voters are: from the log, or from their registrations where the log does not hold them."""
    if quorum.voters_record is not None:
        return [
            wire.Node(
                node_id=voter.voter_id,
                listeners=[wire.Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
            )
            for voter in quorum.voters_record.voters
        ]
    return [
        wire.Node(
            node_id=controller.id,
            listeners=[
                wire.Listener(name=each.name, host=each.host, port=each.port) for each in controller.endpoints.values()
            ],
        )
        for controller in image.controllers.values()
    ]
