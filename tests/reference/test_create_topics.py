"""CreateTopics: what is refused and with which code, and what a created topic looks like."""

from typing import Any

import pytest

from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

VERSIONS = [2, 3, 4, 5, 6, 7]


def topic(name: str, partitions: int = 1, replicas: int = 1, **rest: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **rest)


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=15_000, validate_only=validate_only)


def assigned(name: str, *replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in replicas]
    return topic(name, partitions, factor, assignments=assignments)


def configured(name: str, *configs: tuple[str, str | None]) -> CreatableTopic:
    return topic(name, configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_created_in_every_version(both: Any, version: int) -> None:
    both.same(create(topic(both.new_name(), partitions=3)), version)


@pytest.mark.parametrize("version", [2, 7])
def test_a_topic_that_is_only_validated_is_not_created(both: Any, version: int) -> None:
    name = both.new_name()
    both.same(create(topic(name, partitions=2), validate_only=True), version)
    both.same(create(topic(name, partitions=2)), version)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 249, "y" * 250, "a/b", "a b", "ä", "a:b", "a\n", "__named_inside"]
)
def test_names_have_rules(both: Any, name: str) -> None:
    both.same(create(topic(name)), 7)


def test_dot_and_underscore_collide(both: Any) -> None:
    prefix = both.new_name("collide")
    both.same(create(topic(f"{prefix}.x")), 7)
    both.same(create(topic(f"{prefix}_x")), 7)


def test_dot_and_underscore_collide_within_one_request(both: Any) -> None:
    prefix = both.new_name("collide")
    both.same(create(topic(f"{prefix}_x_y"), topic(f"{prefix}.x_y")), 7, ignoring=["topics"])


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_that_exists_is_refused(both: Any, validate_only: bool) -> None:
    name = both.topic()
    both.same(create(topic(name), validate_only=validate_only), 7)


@pytest.mark.parametrize("partitions", [0, -1, -2])
@pytest.mark.parametrize("version", [3, 7])
def test_numbers_of_partitions(both: Any, partitions: int, version: int) -> None:
    both.same(create(topic(both.new_name(), partitions=partitions)), version)


@pytest.mark.parametrize("replicas", [0, -1, -2, 2])
def test_replication_factors_on_one_node(both: Any, replicas: int) -> None:
    both.same(create(topic(both.new_name(), replicas=replicas)), 7)


@pytest.mark.parametrize("version", [2, 3])
def test_defaults_for_partitions_and_replicas(both: Any, version: int) -> None:
    both.same(create(topic(both.new_name(), partitions=-1, replicas=-1)), version)


@pytest.mark.parametrize(
    ("replicas", "partitions", "factor"),
    [
        ([(0, [1]), (1, [1])], -1, -1),
        ([(1, [1]), (0, [1])], -1, -1),
        ([(0, [1])], 1, -1),
        ([(0, [1])], -1, 1),
        ([(0, [1])], 1, 1),
        ([(0, [1]), (2, [1])], -1, -1),
        ([(1, [1])], -1, -1),
        ([(0, [1]), (0, [1])], -1, -1),
        ([(0, [1, 1])], -1, -1),
        ([(0, [9])], -1, -1),
        ([(0, [1, 9])], -1, -1),
        ([(0, [])], -1, -1),
        ([(0, [1]), (1, [])], -1, -1),
        ([(-1, [1])], -1, -1),
        ([(0, [-1])], -1, -1),
    ],
)
def test_manual_assignments(both: Any, replicas: list[tuple[int, list[int]]], partitions: int, factor: int) -> None:
    both.same(create(assigned(both.new_name(), *replicas, partitions=partitions, factor=factor)), 7)


@pytest.mark.parametrize(
    "configs",
    [
        [("retention.ms", "1000")],
        [("retention.ms", None)],
        [("no.such.key", "1")],
        [("retention.ms", "soon")],
        [("retention.ms", "-2")],
        [("retention.ms", "")],
        [("retention.ms", " 1000 ")],
        [("cleanup.policy", "shred")],
        [("cleanup.policy", "compact,delete")],
        [("cleanup.policy", "")],
        [("cleanup.policy", "compact,compact")],
        [("compression.type", "brotli")],
        [("min.insync.replicas", "0")],
        [("min.insync.replicas", "2")],
        [("min.cleanable.dirty.ratio", "1.5")],
        [("preallocate", "yes")],
        [("preallocate", "TRUE")],
        [("retention.ms", "1"), ("retention.ms", "2")],
        [("max.message.bytes", "99999999999")],
        [("segment.bytes", "1048576")],
        [("local.retention.ms", "5000"), ("retention.ms", "1000")],
        [("remote.storage.enable", "true")],
        [("log.retention.ms", "1000")],
        [("message.timestamp.type", "LogAppendTime")],
        [("message.timestamp.type", "logappendtime")],
        [("follower.replication.throttled.replicas", "0:1")],
        [("leader.replication.throttled.replicas", "nonsense")],
        [("gzip.compression.level", "0")],
        [("gzip.compression.level", "-1")],
    ],
)
def test_configurations_are_checked(both: Any, configs: list[tuple[str, str | None]]) -> None:
    both.same(create(configured(both.new_name(), *configs)), 7)


def test_a_name_twice_in_one_request_is_refused(both: Any) -> None:
    name = both.new_name()
    both.same(create(topic(name), topic(name, partitions=2)), 7)
    both.same(create(topic(name)), 7)


def test_one_bad_topic_does_not_stop_the_good_one(both: Any) -> None:
    both.same(create(topic(both.new_name()), topic(both.new_name(), partitions=0), topic(both.new_name())), 7)


def test_no_topics_are_no_error(both: Any) -> None:
    both.same(create(), 7)


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"]
)
def test_internal_topics_may_be_created_by_hand(both: Any, name: str) -> None:
    both.same(create(topic(name), validate_only=True), 7)


def test_an_internal_config_that_was_set_is_answered(both: Any) -> None:
    asked = configured(both.new_name(), ("internal.segment.bytes", "1000"), ("segment.ms", "5000"))
    both.same(create(asked), 7, ignoring=("topic_id",))


@pytest.mark.parametrize("version", [2, 4, 5])
def test_older_versions_get_the_same_codes(both: Any, version: int) -> None:
    both.same(create(topic("no/slash")), version)
    both.same(create(configured(both.new_name(), ("no.such.key", "1"))), version)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_whose_time_is_up_creates_nothing(both: Any, timeout_ms: int) -> None:
    name = both.new_name()
    both.same(CreateTopicsRequest(topics=[topic(name), topic("no/slash")], timeout_ms=timeout_ms), 7)
    both.same(create(topic(name)), 7)
