"""New partitions: assignments by hand or by placement, their records, and CreatePartitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import default_directory
from barnabas.core.controller.placement import is_active, place_replicas
from barnabas.core.controller.topic_names import named_twice
from barnabas.core.metadata.state import MetadataImage, TopicState
from barnabas.core.steps import Steps, Stepwise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.wire.records.metadata import PartitionRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

# One request is one batch of records: it is committed whole or not at all, so it has a bound.
RECORDS_PER_REQUEST_MAX = 10_000


def check_assignment(image: MetadataImage, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Raises if a partition cannot have these replicas; the factor is that of the partitions before."""
    if not replicas:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )
    previous: int | None = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker}, but no such broker is registered.",
            )
        if broker == previous:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {broker} more than once.",
            )
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s).",
        )


def place(image: MetadataImage, partitions: int, replication_factor: int, random: Random) -> list[list[int]]:
    try:
        return place_replicas(image.brokers.values(), partitions, replication_factor, random)
    except KafkaError as error:
        raise KafkaError(
            error.code, f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        ) from None


def partition_records(
    image: MetadataImage, topic_id: Uuid, first: int, assignments: Iterable[list[int]], fenced: ErrorCode
) -> Steps[list[Record]]:
    """`fenced` is the error if no replica of a partition can lead it."""
    brokers = image.brokers
    directories = {broker.id: default_directory(broker) for broker in brokers.values()}
    records: list[Record] = []
    for index, replicas in enumerate(assignments, first):
        yield
        isr = [replica for replica in replicas if is_active(brokers[replica])]
        if not isr:
            raise KafkaError(fenced, _nobody_leads(fenced, index, len(replicas)))
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directories[replica] for replica in replicas],
            )
        )
    return records


def _nobody_leads(code: ErrorCode, index: int, replication_factor: int) -> str:
    if code is ErrorCode.INVALID_REPLICA_ASSIGNMENT:
        return (
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
    return (
        f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced or in "
        "controlled shutdown."
    )


@Stepwise
def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    *,
    random: Random,
    may_alter: Callable[[str], bool] = lambda name: True,
) -> Steps[ControllerDecision[CreatePartitionsResponse]]:
    records: list[Record] = []
    results: list[CreatePartitionsTopicResult] = []
    duplicates = named_twice(topic.name for topic in request.topics)
    for name in duplicates:
        results.append(_refused(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
    for topic in request.topics:
        yield
        if topic.name in duplicates:
            continue
        try:
            if not may_alter(topic.name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            added = yield from _added_partitions(image, topic, len(records), random)
        except KafkaError as error:
            results.append(_refused(topic.name, error))
        else:
            records += added
            results.append(CreatePartitionsTopicResult(name=topic.name))
    return ControllerDecision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _refused(name: str, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message or None)


def _added_partitions(
    image: MetadataImage, wanted: CreatePartitionsTopic, records_before: int, random: Random
) -> Steps[list[Record]]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    current = len(topic.partitions)
    added = wanted.count - current
    if added == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if added < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {wanted.count} would not be an increase.",
        )
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified.",
        )
    if records_before + added > RECORDS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"One request can create {RECORDS_PER_REQUEST_MAX} partitions at most."
        )
    replication_factor = _replication_factor(topic)
    if wanted.assignments is None:
        assignments = place_replicas(image.brokers.values(), added, replication_factor, random)
        return (
            yield from partition_records(
                image, topic.topic_id, current, assignments, fenced=ErrorCode.INVALID_REPLICATION_FACTOR
            )
        )
    assignments = [assignment.broker_ids for assignment in wanted.assignments]
    for replicas in assignments:
        yield
        check_assignment(image, replicas, replication_factor)
    fenced = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return (yield from partition_records(image, topic.topic_id, current, assignments, fenced))


def _replication_factor(topic: TopicState) -> int:
    return len(topic.partitions[min(topic.partitions)].replicas)
