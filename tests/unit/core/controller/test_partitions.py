from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.partitions import create_partitions
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.wire.records.metadata import PartitionRecord
from barnabas.wire.uuids import Uuid

Cluster = Callable[..., MetadataImage]


def identity(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def grow(name: str, count: int, *assignments: list[int]) -> CreatePartitionsTopic:
    given = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments] if assignments else None
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


def create(
    image: MetadataImage, *topics: CreatePartitionsTopic, validate_only: bool = False, **rest: Any
) -> ControllerDecision[CreatePartitionsResponse]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    return create_partitions(image, request, random=Random(0), **rest)


def partition(index: int, replicas: list[int], isr: list[int] | None = None) -> PartitionRecord:
    isr = replicas if isr is None else isr
    return PartitionRecord(
        topic_id=identity(1),
        partition_id=index,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[identity(replica * 1000 + 1) for replica in replicas],
    )


def codes(decision: ControllerDecision[CreatePartitionsResponse]) -> dict[str, ErrorCode]:
    return {each.name: ErrorCode(each.error_code) for each in decision.response.results}


def test_a_topic_grows_to_the_count(cluster: Cluster) -> None:
    decision = create(cluster(topics={"t": [[1]]}), grow("t", 3))
    assert decision.records == [partition(1, [1]), partition(2, [1])]
    assert decision.response.results == [CreatePartitionsTopicResult(name="t")]


def test_new_partitions_have_as_many_replicas_as_the_old_ones(cluster: Cluster) -> None:
    decision = create(cluster([1, 2, 3], topics={"t": [[1, 2]]}), grow("t", 4))
    assert [len(record.replicas) for record in decision.records] == [2, 2, 2]  # type: ignore[attr-defined]


def test_manual_assignments_are_taken(cluster: Cluster) -> None:
    decision = create(cluster([1, 2, 3], fenced=[3], topics={"t": [[1, 2]]}), grow("t", 3, [2, 1], [3, 2]))
    assert decision.records == [partition(1, [2, 1]), partition(2, [3, 2], isr=[2])]


def test_only_validating_writes_nothing(cluster: Cluster) -> None:
    decision = create(cluster(topics={"t": [[1]]}), grow("t", 3), validate_only=True)
    assert decision.records == []
    assert codes(decision) == {"t": ErrorCode.NONE}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (grow("t", 2), ErrorCode.INVALID_PARTITIONS),
        (grow("t", 1), ErrorCode.INVALID_PARTITIONS),
        (grow("t", -1), ErrorCode.INVALID_PARTITIONS),
        (grow("nope", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (grow("t", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, [1], [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, [2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 10_003), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_cannot_be_is_refused(cluster: Cluster, wanted: CreatePartitionsTopic, code: ErrorCode) -> None:
    decision = create(cluster([1, 2], fenced=[2], topics={"t": [[1], [1]]}), wanted)
    assert decision.records == []
    assert codes(decision) == {wanted.name: code}


def test_an_empty_list_of_assignments_is_not_the_same_as_none(cluster: Cluster) -> None:
    decision = create(cluster(topics={"t": [[1]]}), CreatePartitionsTopic(name="t", count=2, assignments=[]))
    assert codes(decision) == {"t": ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_a_topic_named_twice_is_refused_and_others_grow(cluster: Cluster) -> None:
    image = cluster(topics={"t": [[1]], "twice": [[1]]})
    decision = create(image, grow("twice", 2), grow("t", 2), grow("twice", 3))
    assert codes(decision) == {"twice": ErrorCode.INVALID_REQUEST, "t": ErrorCode.NONE}
    assert decision.records == [partition(1, [1])]


def test_who_may_not_alter_a_topic_is_told(cluster: Cluster) -> None:
    decision = create(cluster(topics={"t": [[1]]}), grow("t", 2), may_alter=lambda name: False)
    assert codes(decision) == {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (grow("t", 2), "Topic already has 2 partition(s)."),
        (grow("t", -22), "The topic t currently has 2 partition(s); -22 would not be an increase."),
        (grow("t", 4, [1]), "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (grow("t", 3, []), "The manual partition assignment includes an empty replica list."),
        (grow("t", 3, [1, 1]), "The manual partition assignment includes the broker 1 more than once."),
        (grow("t", 3, [12]), "The manual partition assignment includes broker 12, but no such broker is registered."),
        (
            grow("t", 3, [1, 2]),
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
        (
            grow("t", 3, [2]),
            "All brokers specified in the manual partition assignment for partition 2 are fenced or in controlled "
            "shutdown.",
        ),
    ],
)
def test_refusals_have_kafkas_words(cluster: Cluster, wanted: CreatePartitionsTopic, words: str) -> None:
    decision = create(cluster([1, 2], fenced=[2], topics={"t": [[1], [1]]}), wanted)
    assert [each.error_message for each in decision.response.results] == [words]
