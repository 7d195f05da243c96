"""AssignReplicasToDirs: a broker tells in which of its directories its replicas lie.

What lies in a directory that has failed meanwhile gets another leader, as with Apache Kafka. A partition without a
leader gets one if the directory is there: its replica was about to move to one that has failed, and has stayed.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import MIGRATING, is_online
from barnabas.core.controller.liveness import TopicRules, change_leaders
from barnabas.core.metadata.state import NO_LEADER, MetadataImage, PartitionState
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from barnabas.wire.records.metadata import PartitionChangeRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, rules: TopicRules
) -> ControllerDecision[AssignReplicasToDirsResponse]:
    response = AssignReplicasToDirsResponse()
    records: list[Record] = []
    for directory in request.directories:
        told = ResponseDirectoryData(id=directory.id)
        response.directories.append(told)
        for topic in directory.topics:
            results = ResponseTopicData(topic_id=topic.topic_id)
            told.topics.append(results)
            for each in topic.partitions:
                result = ResponsePartitionData(partition_index=each.partition_index)
                results.partitions.append(result)
                try:
                    partition = _replica_of(image, topic.topic_id, each.partition_index, request.broker_id)
                    change = _assign(partition, request.broker_id, directory.id)
                    if change is not None:
                        records.append(change)
                        partition = partition.merge(change)
                    records += _lead(image, partition, request.broker_id, directory.id, rules)
                except KafkaError as error:
                    result.error_code = error.code
    return ControllerDecision(records, response)


def _replica_of(image: MetadataImage, topic_id: Uuid, index: int, broker_id: int) -> PartitionState:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if broker_id not in partition.replicas:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition


def _assign(partition: PartitionState, broker_id: int, directory: Uuid) -> PartitionChangeRecord | None:
    known = partition.directories or [MIGRATING] * len(partition.replicas)
    told = [
        directory if replica == broker_id else of_other
        for replica, of_other in zip(partition.replicas, known, strict=True)
    ]
    if told == known:
        return None
    return PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.index, directories=told)


def _lead(
    image: MetadataImage, partition: PartitionState, broker_id: int, directory: Uuid, rules: TopicRules
) -> Iterable[Record]:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ()
    if not is_online(broker, directory):
        return change_leaders(image, [partition], rules, leaving=broker_id) if broker_id in partition.isr else ()
    return change_leaders(image, [partition], rules) if partition.leader == NO_LEADER else ()
