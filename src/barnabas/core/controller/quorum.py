"""DescribeQuorum: who leads the metadata log, and how far each of its replicas is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.core.controller.topic_names import CLUSTER_METADATA_TOPIC
from barnabas.core.metadata.state import ControllerState
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from barnabas.wire.uuids import Uuid

DIRECTORIES_SINCE_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[QuorumReplica]
    observers: Sequence[QuorumReplica] = field(default_factory=list)
    controllers: Sequence[ControllerState] = field(default_factory=list)


def describe_quorum(request: DescribeQuorumRequest, version: int, quorum: Quorum) -> DescribeQuorumResponse:
    """Asked for anything but the one partition of the metadata, all that was asked for is unknown."""
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked and asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        return _unknown(asked)
    if not asked:
        return DescribeQuorumResponse()
    partition = ResponsePartitionData(
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_replica(each, version) for each in quorum.voters],
        observers=[_replica(each, version) for each in quorum.observers],
    )
    response = DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    )
    if version >= DIRECTORIES_SINCE_VERSION:
        response.nodes = [_node(controller) for controller in quorum.controllers]
    return response


def _unknown(asked: list[tuple[str, list[int]]]) -> DescribeQuorumResponse:
    topics = [
        ResponseTopicData(
            topic_name=name,
            partitions=[
                ResponsePartitionData(
                    partition_index=index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=f"Only {CLUSTER_METADATA_TOPIC}-0 has a quorum, and it is asked for alone.",
                )
                for index in partitions
            ],
        )
        for name, partitions in asked
    ]
    return DescribeQuorumResponse(topics=topics)


def _replica(replica: QuorumReplica, version: int) -> ReplicaState:
    state = ReplicaState(
        replica_id=replica.id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )
    if version >= DIRECTORIES_SINCE_VERSION:
        state.replica_directory_id = replica.directory_id
    return state


def _node(controller: ControllerState) -> Node:
    listeners = [Listener(name=each.name, host=each.host, port=each.port) for each in controller.endpoints.values()]
    return Node(node_id=controller.id, listeners=listeners)
