"""ElectLeaders: the preferred replica leads again, or, where nobody in sync is left, one that is not (unclean).

An election that changes nothing is not held. Whoever asks for all partitions hears of those only that had one.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.core.controller.directories import UNASSIGNED, is_online
from barnabas.core.controller.placement import is_active
from barnabas.core.decision import Decision
from barnabas.core.metadata.state import NO_LEADER, MetadataImage, PartitionState
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from barnabas.wire.records.metadata import PartitionChangeRecord
from barnabas.wire.schema import Record

PREFERRED, UNCLEAN = 0, 1
RECOVERING = 1


def elect_leaders(image: MetadataImage, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        asked: Iterable[tuple[str, list[int]]] = [(name, list(it.partitions)) for name, it in image.topics.items()]
    else:
        asked = [(each.topic, each.partitions) for each in request.topic_partitions]
    asked = list(asked)
    if asked and request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The election type {request.election_type} is unknown.")
    records: list[Record] = []
    results = []
    for topic, indexes in asked:
        result = ReplicaElectionResult(topic=topic)
        results.append(result)
        for index in indexes:
            told = PartitionResult(partition_id=index, error_message=None)
            try:
                records.append(_elect(image, topic, index, request.election_type))
            except KafkaError as error:
                told.error_code, told.error_message = error.code, error.message
            if not everything or told.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(told)
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def _elect(image: MetadataImage, topic: str, index: int, kind: int) -> Record:
    known = image.topics.get(topic)
    partition = None if known is None else known.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {topic}-{index}.")
    preferred = partition.replicas[0]
    if partition.leader == preferred or (kind == UNCLEAN and partition.leader != NO_LEADER):
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "The partition is led by whom it should be.")
    available = [replica for replica in partition.replicas if can_lead(image, partition, replica)]
    in_sync = [replica for replica in available if replica in partition.isr]
    if kind == PREFERRED and preferred not in in_sync:
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"Replica {preferred} cannot lead the partition.")
    changed = PartitionChangeRecord(partition_id=index, topic_id=partition.topic_id)
    if in_sync:
        changed.leader = in_sync[0]
    elif available:
        changed.leader, changed.isr, changed.leader_recovery_state = available[0], available[:1], RECOVERING
    else:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is there.")
    return changed


def can_lead(image: MetadataImage, partition: PartitionState, replica: int) -> bool:
    broker = image.brokers.get(replica)
    if broker is None or not is_active(broker):
        return False
    directories = partition.directories or [UNASSIGNED] * len(partition.replicas)
    return is_online(broker, dict(zip(partition.replicas, directories, strict=True)).get(replica, UNASSIGNED))
