"""CreateTopics: exact records, exact answers."""

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import UNASSIGNED
from barnabas.core.controller.topics import CreationRules, create_topics
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.records.metadata import ConfigRecord, PartitionRecord, TopicRecord
from barnabas.wire.uuids import ZERO_UUID, Uuid

Cluster = Callable[..., MetadataImage]


def identity(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


class Configs:
    """Knows retention.ms, and that it is a number."""

    def check(self, image: MetadataImage, configs: dict[str, str]) -> None:
        for name, value in configs.items():
            if name != "retention.ms" or not value.isdigit():
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} cannot be {value}")

    def effective(self, image: MetadataImage, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
        assert configs == {}
        names = {"cleanup.policy": "delete", "retention.ms": "7"}
        return [CreatableTopicConfigs(name=name, value=value, config_source=5) for name, value in names.items()]


def rules(**changes: Any) -> CreationRules:
    numbers = itertools.count(100)
    given: dict[str, Any] = {
        "num_partitions": 2,
        "replication_factor": 1,
        "configs": Configs(),
        "random": Random(0),
        "new_id": lambda: identity(next(numbers)),
    }
    return CreationRules(**{**given, **changes})


def topic(name: str, partitions: int = 1, replicas: int = 1, **rest: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **rest)


def assigned(name: str, *replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in replicas]
    return topic(name, partitions, factor, assignments=assignments)


def configured(name: str, **configs: str | None) -> CreatableTopic:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return topic(name, configs=given)


def create(
    image: MetadataImage, *topics: CreatableTopic, validate_only: bool = False, **changes: Any
) -> ControllerDecision[CreateTopicsResponse]:
    return create_topics(image, CreateTopicsRequest(topics=list(topics), validate_only=validate_only), rules(**changes))


def partition(number: int, index: int, replicas: list[int], *, isr: list[int] | None = None) -> PartitionRecord:
    isr = replicas if isr is None else isr
    return PartitionRecord(
        topic_id=identity(number),
        partition_id=index,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[identity(replica * 1000 + 1) for replica in replicas],
    )


def codes(decision: ControllerDecision[CreateTopicsResponse]) -> dict[str, ErrorCode]:
    return {each.name: ErrorCode(each.error_code) for each in decision.response.topics}


def test_a_topic_is_its_record_then_its_configs_then_its_partitions(cluster: Cluster) -> None:
    wanted = topic("orders", 2, configs=[CreatableTopicConfig(name="retention.ms", value="1000")])
    decision = create(cluster(), wanted)
    assert decision.records == [
        TopicRecord(name="orders", topic_id=identity(100)),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        partition(100, 0, [1]),
        partition(100, 1, [1]),
    ]
    assert decision.response == CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name="orders",
                topic_id=identity(100),
                error_message=None,
                num_partitions=2,
                replication_factor=1,
                configs=[
                    CreatableTopicConfigs(name="cleanup.policy", value="delete", config_source=5),
                    CreatableTopicConfigs(name="retention.ms", value="1000", config_source=1),
                ],
            )
        ]
    )


def test_minus_one_means_the_defaults(cluster: Cluster) -> None:
    decision = create(cluster([1, 2]), topic("t", -1, -1), num_partitions=3, replication_factor=2)
    assert (decision.response.topics[0].num_partitions, decision.response.topics[0].replication_factor) == (3, 2)
    assert len(decision.records) == 4


def test_only_validating_answers_the_same_and_writes_nothing(cluster: Cluster) -> None:
    decision = create(cluster(), topic("t"), validate_only=True)
    assert decision.records == []
    assert decision.response == create(cluster(), topic("t")).response


def test_what_was_made_replays_into_the_image(cluster: Cluster) -> None:
    image = cluster([1, 2, 3])
    image.replay_all(create(image, topic("t", 6, 3)).records)
    assert [len(each.replicas) for each in image.topics["t"].partitions.values()] == [3] * 6
    assert codes(create(image, topic("t"))) == {"t": ErrorCode.TOPIC_ALREADY_EXISTS}


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä"])
def test_a_bad_name_is_refused(cluster: Cluster, name: str) -> None:
    decision = create(cluster(), topic(name))
    assert decision.records == []
    assert codes(decision) == {name: ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert decision.response.topics[0].topic_id == ZERO_UUID


def test_a_name_that_differs_from_another_only_in_dots_is_refused(cluster: Cluster) -> None:
    image = cluster(topics={"a.b_c": [[1]]})
    decision = create(image, topic("a_b.c"), topic("a.b_c"), topic("a-b-c"))
    assert codes(decision) == {
        "a_b.c": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "a.b_c": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a-b-c": ErrorCode.NONE,
    }


def test_a_topic_named_twice_is_refused_once_and_the_others_are_made(cluster: Cluster) -> None:
    decision = create(cluster(), topic("twice"), topic("once"), topic("twice", 5), topic("twice"))
    assert [(each.name, each.error_code) for each in decision.response.topics] == [("once", 0), ("twice", 42)]
    assert decision.records == [TopicRecord(name="once", topic_id=identity(100)), partition(100, 0, [1])]


def test_the_topic_of_the_metadata_cannot_be_made_but_other_internal_ones_can(cluster: Cluster) -> None:
    decision = create(cluster(), topic("__cluster_metadata"), topic("__consumer_offsets"))
    assert codes(decision) == {"__consumer_offsets": ErrorCode.NONE, "__cluster_metadata": ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_numbers_have_bounds(cluster: Cluster, partitions: int, replicas: int, code: ErrorCode) -> None:
    assert codes(create(cluster(), topic("t", partitions, replicas))) == {"t": code}


def test_a_manual_assignment_is_taken_as_it_is(cluster: Cluster) -> None:
    decision = create(cluster([1, 2, 3], fenced=[2]), assigned("t", (1, [2, 3]), (0, [1, 2])))
    assert decision.records == [
        TopicRecord(name="t", topic_id=identity(100)),
        partition(100, 0, [1, 2], isr=[1]),
        partition(100, 1, [2, 3], isr=[3]),
    ]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (assigned("t", (0, [1]), partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", (0, [1]), factor=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", (0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (2, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (-1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (1, [1, 2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [3])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_manual_assignment_that_cannot_be_is_refused(
    cluster: Cluster, wanted: CreatableTopic, code: ErrorCode
) -> None:
    decision = create(cluster([1, 2, 3], fenced=[3]), wanted)
    assert decision.records == []
    assert codes(decision) == {"t": code}


def test_a_config_that_is_unknown_wrong_or_null_is_refused(cluster: Cluster) -> None:
    decision = create(
        cluster(),
        configured("unknown", nope="1"),
        configured("wrong", retention_ms="x"),
        configured("null", retention_ms=None),
    )
    assert decision.records == []
    assert set(codes(decision).values()) == {ErrorCode.INVALID_CONFIG}


def test_of_a_config_given_twice_the_last_counts(cluster: Cluster) -> None:
    twice = [CreatableTopicConfig(name="retention.ms", value=value) for value in ("1", "2")]
    decision = create(cluster(), topic("t", configs=twice))
    assert decision.records[1] == ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="2")


def test_with_several_directories_the_broker_chooses_later(cluster: Cluster) -> None:
    decision = create(cluster(log_dirs=2), topic("t"))
    assert decision.records[1].directories == [UNASSIGNED]  # type: ignore[attr-defined]


def test_who_may_not_create_or_see_configs_is_told_so(cluster: Cluster) -> None:
    decision = create(
        cluster(),
        topic("mine"),
        topic("theirs"),
        may_create=lambda name: name == "mine",
        may_describe_configs=lambda name: False,
    )
    mine, theirs = decision.response.topics
    assert (mine.error_code, mine.topic_config_error_code, mine.num_partitions) == (0, 29, -1)
    assert theirs.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_request_for_too_much_is_refused_whole(cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as caught:
        create(cluster(), topic("small"), topic("large", 10_000))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    with pytest.raises(KafkaError) as caught:
        create(cluster(), topic("one.record.too.many", 10_000))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert len(create(cluster(), topic("just.fits", 9_999)).records) == 10_000


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (topic("t", 1, 0), "Replication factor must be larger than 0, or -1 to use the default value."),
        (topic("t", 0), "Number of partitions was set to an invalid non-positive value."),
        (
            topic("t", 1, 3),
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (topic("a_b"), "Topic 'a_b' collides with existing topic: a.b"),
        (topic("__cluster_metadata"), "Creation of internal topic __cluster_metadata is prohibited."),
        (
            assigned("t", (0, [1]), factor=1),
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            assigned("t", (0, [1]), partitions=1),
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (assigned("t", (0, [1]), (0, [1])), "Found multiple manual partition assignments for partition 0"),
        (assigned("t", (1, [1])), "partitions should be a consecutive 0-based integer sequence"),
        (configured("t", retention_ms=None), "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_refusals_have_kafkas_words(cluster: Cluster, wanted: CreatableTopic, words: str) -> None:
    decision = create(cluster([1], topics={"a.b": [[1]]}), wanted)
    assert [each.error_message for each in decision.response.topics] == [words]
