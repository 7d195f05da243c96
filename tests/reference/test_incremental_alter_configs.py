"""IncrementalAlterConfigs and AlterConfigs: single keys set, deleted, appended to and taken from."""

from typing import Any

import pytest

from barnabas.wire.messages import alter_configs
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
Change = tuple[str, int, str | None]


def resource(type_: int, name: str, *changes: Change) -> AlterConfigsResource:
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    return AlterConfigsResource(resource_type=type_, resource_name=name, configs=configs)


def alter(type_: int, name: str, *changes: Change, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=[resource(type_, name, *changes)], validate_only=validate_only)


def replace(type_: int, name: str, *configs: tuple[str, str | None], validate_only: bool = False) -> Any:
    given = [alter_configs.AlterableConfig(name=key, value=value) for key, value in configs]
    one = alter_configs.AlterConfigsResource(resource_type=type_, resource_name=name, configs=given)
    return alter_configs.AlterConfigsRequest(resources=[one], validate_only=validate_only)


def described(type_: int, name: str, *keys: str) -> DescribeConfigsRequest:
    wanted = DescribeConfigsResource(resource_type=type_, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[wanted], include_synonyms=True)


@pytest.mark.parametrize("version", [0, 1])
def test_a_key_is_set_and_deleted(both: Any, version: int) -> None:
    topic = both.topic()
    both.same(alter(TOPIC, topic, ("retention.ms", SET, "1234")), version)
    both.settled(described(TOPIC, topic, "retention.ms"), 4)
    both.same(alter(TOPIC, topic, ("retention.ms", DELETE, None)), version)
    both.settled(described(TOPIC, topic, "retention.ms"), 4)
    both.same(alter(TOPIC, topic, ("retention.ms", DELETE, None)), version)


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "5"),
        ("follower.replication.throttled.replicas", "0:1"),
        ("cleanup.policy", None),
        ("cleanup.policy", ""),
    ],
)
def test_lists_grow_and_shrink(both: Any, operation: int, key: str, value: str | None) -> None:
    topic = both.topic()
    both.same(alter(TOPIC, topic, (key, operation, value)), 1)
    both.settled(described(TOPIC, topic, key), 4)


def test_a_list_set_before(both: Any) -> None:
    topic = both.topic(cleanup_policy="compact")
    both.same(alter(TOPIC, topic, ("cleanup.policy", APPEND, "delete")), 1)
    both.settled(described(TOPIC, topic, "cleanup.policy"), 4)
    both.same(alter(TOPIC, topic, ("cleanup.policy", APPEND, "delete")), 1)
    both.settled(described(TOPIC, topic, "cleanup.policy"), 4)
    both.same(alter(TOPIC, topic, ("cleanup.policy", SUBTRACT, "compact")), 1)
    both.settled(described(TOPIC, topic, "cleanup.policy"), 4)
    both.same(alter(TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")), 1)
    both.settled(described(TOPIC, topic, "cleanup.policy"), 4)


@pytest.mark.parametrize(
    "changes",
    [
        [("retention.ms", SET, "soon")],
        [("retention.ms", SET, "-5")],
        [("retention.ms", SET, None)],
        [("retention.ms", SET, "")],
        [("no.such.key", SET, "1")],
        [("no.such.key", DELETE, None)],
        [("no.such.key", APPEND, "1")],
        [("retention.ms", 4, "1")],
        [("retention.ms", -1, "1")],
        [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
        [("retention.ms", SET, "1"), ("cleanup.policy", SET, "shred")],
        [("cleanup.policy", SET, "compact"), ("retention.bytes", SET, "1")],
        [("log.retention.ms", SET, "1")],
        [("", SET, "1")],
        [("local.retention.ms", SET, "5000"), ("retention.ms", SET, "1000")],
        [("max.message.bytes", SET, "0")],
        [("min.insync.replicas", SET, "3")],
        [],
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_changes_of_a_topic_are_checked(both: Any, changes: list[Change], validate_only: bool) -> None:
    topic = both.topic()
    both.same(alter(TOPIC, topic, *changes, validate_only=validate_only), 1)
    both.settled(described(TOPIC, topic, "retention.ms", "cleanup.policy", "retention.bytes"), 4)


@pytest.mark.parametrize("name", ["not-there", "", "a/b"])
def test_topics_that_are_not_there(both: Any, name: str) -> None:
    both.same(alter(TOPIC, name, ("retention.ms", SET, "1")), 1)


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize(
    "change",
    [
        ("log.retention.ms", SET, "5000"),
        ("log.retention.ms", SET, "soon"),
        ("log.retention.ms", DELETE, None),
        ("node.id", SET, "7"),
        ("log.dirs", SET, "/elsewhere"),
        ("num.partitions", SET, "3"),
        ("num.partitions", DELETE, None),
        ("auto.create.topics.enable", SET, "true"),
        ("no.such.key", SET, "1"),
        ("no.such.key", DELETE, None),
        ("background.threads", SET, "11"),
        ("background.threads", SET, "1000"),
        ("log.cleaner.threads", SET, "0"),
        ("max.connections.per.ip", SET, "100"),
        ("message.max.bytes", SET, "2000000"),
        ("listener.name.plaintext.max.connections", SET, "500"),
        ("ssl.keystore.password", SET, "secret"),
        ("advertised.listeners", SET, "PLAINTEXT://elsewhere:9092"),
        ("follower.replication.throttled.rate", SET, "100"),
        ("min.insync.replicas", SET, "2"),
    ],
)
def test_changes_of_brokers(both: Any, name: str, change: Change) -> None:
    """Only validated: nothing of it shall stay in the session's servers."""
    both.same(alter(BROKER, name, change, validate_only=True), 1)


@pytest.mark.parametrize("name", ["1", ""])
def test_a_dynamic_key_of_a_broker_comes_and_goes(both: Any, name: str) -> None:
    topic = both.topic()
    both.same(alter(BROKER, name, ("log.retention.ms", SET, "7654321")), 1)
    both.settled(described(BROKER, "1", "log.retention.ms"), 4)
    both.settled(described(BROKER, "", "log.retention.ms"), 4)
    both.settled(described(TOPIC, topic, "retention.ms"), 4)
    both.same(alter(BROKER, name, ("log.retention.ms", DELETE, None)), 1)
    both.settled(described(BROKER, "1", "log.retention.ms"), 4)
    both.settled(described(TOPIC, topic, "retention.ms"), 4)


@pytest.mark.parametrize("name", ["2", "x", "-1"])
def test_brokers_that_are_not_us(both: Any, name: str) -> None:
    both.same(alter(BROKER, name, ("log.retention.ms", SET, "5000"), validate_only=True), 1)


@pytest.mark.parametrize(
    "change",
    [
        ("consumer.session.timeout.ms", SET, "50000"),
        ("consumer.session.timeout.ms", SET, "1"),
        ("consumer.session.timeout.ms", SET, "soon"),
        ("consumer.heartbeat.interval.ms", SET, "6000"),
        ("no.such.key", SET, "1"),
        ("share.auto.offset.reset", SET, "earliest"),
        ("share.auto.offset.reset", SET, "sometimes"),
    ],
)
def test_groups(both: Any, change: Change) -> None:
    group = both.new_name("group")
    both.same(alter(GROUP, group, change), 1)
    both.settled(described(GROUP, group), 4)
    both.same(alter(GROUP, "", change, validate_only=True), 1)


@pytest.mark.parametrize("type_", [0, 1, 3, 64, -1])
def test_types_that_do_not_exist(both: Any, type_: int) -> None:
    both.same(alter(type_, "x", ("retention.ms", SET, "1")), 1)


def test_a_resource_twice(both: Any) -> None:
    topic = both.topic()
    one, two = resource(TOPIC, topic, ("retention.ms", SET, "1")), resource(TOPIC, topic, ("retention.bytes", SET, "1"))
    both.same(IncrementalAlterConfigsRequest(resources=[one, two]), 1)
    both.settled(described(TOPIC, topic, "retention.ms", "retention.bytes"), 4)


def test_a_good_and_a_bad_resource(both: Any) -> None:
    topic = both.topic()
    good, bad = resource(TOPIC, topic, ("retention.ms", SET, "9")), resource(TOPIC, "not-there", ("x", SET, "1"))
    both.same(IncrementalAlterConfigsRequest(resources=[good, bad]), 1)
    both.settled(described(TOPIC, topic, "retention.ms"), 4)


def test_nothing_asked(both: Any) -> None:
    both.same(IncrementalAlterConfigsRequest(), 1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_replaces_everything(both: Any, version: int) -> None:
    topic = both.topic(retention_ms="1", cleanup_policy="compact")
    both.same(replace(TOPIC, topic, ("retention.ms", "2"), ("retention.bytes", "3")), version)
    both.settled(described(TOPIC, topic), 4)
    both.same(replace(TOPIC, topic), version)
    both.settled(described(TOPIC, topic), 4)


@pytest.mark.parametrize(
    "configs",
    [
        [("retention.ms", "soon")],
        [("retention.ms", None)],
        [("no.such.key", "1")],
        [("retention.ms", "1"), ("retention.ms", "2")],
    ],
)
def test_alter_configs_checks_too(both: Any, configs: list[tuple[str, str | None]]) -> None:
    topic = both.topic(retention_bytes="5")
    both.same(replace(TOPIC, topic, *configs), 2)
    both.settled(described(TOPIC, topic, "retention.ms", "retention.bytes"), 4)
    both.same(replace(TOPIC, "not-there", *configs), 2)


def test_alter_configs_only_validates(both: Any) -> None:
    topic = both.topic(retention_bytes="5")
    both.same(replace(TOPIC, topic, ("retention.ms", "2"), validate_only=True), 2)
    both.settled(described(TOPIC, topic, "retention.ms", "retention.bytes"), 4)
