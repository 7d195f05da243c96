"""ElectLeaders: the preferred replica leads again, or, where nobody in sync is left, one that is not (unclean).

An election that changes nothing is not held. Whoever asks for all partitions hears of those only that had one. The
controller itself holds both kinds from time to time: `balance_leaders`, and `elect_uncleanly` where a topic allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import directory_of, is_online
from barnabas.core.controller.liveness import TopicRules, effective_min_insync, tracks_eligible_leaders
from barnabas.core.controller.partition_changes import Election, PartitionChange
from barnabas.core.controller.placement import is_active
from barnabas.core.metadata.state import NO_LEADER, MetadataImage, PartitionState
from barnabas.core.steps import Steps, Stepwise
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
ELECTIONS_MAX = 1000  # at once


@Stepwise
def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, rules: TopicRules | None = None
) -> Steps[ControllerDecision[ElectLeadersResponse]]:
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
        yield
        for index in indexes:
            yield
            told = PartitionResult(partition_id=index, error_message=None)
            try:
                records.append(_elect(image, topic, index, request.election_type, rules))
            except KafkaError as error:
                told.error_code, told.error_message = error.code, error.message
            if not everything or told.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(told)
    return ControllerDecision(records, ElectLeadersResponse(replica_election_results=results))


def _elect(image: MetadataImage, topic: str, index: int, kind: int, rules: TopicRules | None) -> PartitionChangeRecord:
    known = image.topics.get(topic)
    partition = None if known is None else known.partitions.get(index)
    if partition is None:
        missing = f"topic as {topic}" if known is None else f"partition as {topic}-{index}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}")
    preferred = partition.replicas[0]
    if partition.leader == preferred or (kind == UNCLEAN and partition.leader != NO_LEADER):
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    is_in_sync = preferred in partition.isr or (not partition.isr and preferred in partition.eligible_leader_replicas)
    if kind == PREFERRED and not (is_in_sync and can_lead(image, partition, preferred)):
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    record = _hold(image, partition, Election.PREFERRED if kind == PREFERRED else Election.UNCLEAN, rules)
    if record is None or record.leader < 0:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
        )
    return record


def _hold(
    image: MetadataImage, partition: PartitionState, election: Election, rules: TopicRules | None
) -> PartitionChangeRecord | None:
    minimum = 1 if rules is None else effective_min_insync(image, partition, rules)
    return PartitionChange(
        partition=partition,
        acceptable=lambda replica: can_lead(image, partition, replica),
        min_insync_replicas=minimum,
        tracks_eligible_leaders=tracks_eligible_leaders(image),
        election=election,
    ).record(image)


def balance_leaders(image: MetadataImage, rules: TopicRules, limit: int = ELECTIONS_MAX) -> list[Record]:
    """The preferred replicas lead again, as far as they are in sync and in service."""
    records: list[Record] = []
    for partition in _partitions(image):
        preferred = partition.replicas[0]
        if partition.leader == preferred or preferred not in partition.isr or not can_lead(image, partition, preferred):
            continue
        record = _hold(image, partition, Election.PREFERRED, rules)
        if record is not None:
            records.append(record)
        if len(records) >= limit:
            break
    return records


def elect_uncleanly(image: MetadataImage, rules: TopicRules, limit: int = ELECTIONS_MAX) -> list[Record]:
    """Leaders for partitions without one whose topics allow that records are lost."""
    records: list[Record] = []
    for partition in _partitions(image):
        if partition.leader != NO_LEADER or not rules.unclean_election(partition.topic):
            continue
        record = _hold(image, partition, Election.UNCLEAN, rules)
        if record is not None:
            records.append(record)
        if len(records) >= limit:
            break
    return records


def _partitions(image: MetadataImage) -> Iterator[PartitionState]:
    for topic in image.topics.values():
        yield from topic.partitions.values()


def can_lead(image: MetadataImage, partition: PartitionState, replica: int) -> bool:
    broker = image.brokers.get(replica)
    return broker is not None and is_active(broker) and is_online(broker, directory_of(partition, replica))
