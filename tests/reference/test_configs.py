"""Configs beyond the single request: which resources have any, what is refused in which words, and what a change of a
broker does to its topics."""

from typing import Any

import pytest

from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
Change = tuple[str, int, str | None]


def alter(kind: int, name: str, *changes: Change, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def described(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no.such.key", "1"),
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("retention.ms", "1.5"),
        ("segment.bytes", "99999999999"),
        ("segment.bytes", ""),
        ("cleanup.policy", "foo"),
        ("cleanup.policy", "delete,,compact"),
        ("cleanup.policy", "delete,delete"),
        ("compression.type", "none"),
        ("preallocate", "yes"),
        ("preallocate", "TRUE"),
        ("min.cleanable.dirty.ratio", "2"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("min.cleanable.dirty.ratio", "abc"),
        ("message.timestamp.type", "x"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("min.insync.replicas", "0"),
        ("segment.ms", "0"),
        ("max.compaction.lag.ms", "0"),
        ("local.retention.ms", "-3"),
        ("retention.bytes", "-5"),
        ("message.format.version", "2.0"),
        ("flush.ms", "+5"),
        ("flush.ms", "0x10"),
        ("leader.replication.throttled.replicas", "*"),
        ("internal.segment.bytes", "100"),
    ],
)
def test_a_wrong_value_is_refused_in_kafkas_words(both: Any, key: str, value: str) -> None:
    both.same(alter(TOPIC, both.topic(), (key, SET, value), validate_only=True), 1, exact=["error_message"])


def test_of_several_wrong_values_the_same_one_is_named(both: Any) -> None:
    changes = [("retention.ms", SET, "x"), ("segment.bytes", SET, "y"), ("cleanup.policy", SET, "z")]
    both.same(alter(TOPIC, both.topic(), *changes, validate_only=True), 1, exact=["error_message"])


@pytest.mark.parametrize(
    "changes",
    [
        [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
        [("remote.storage.enable", SET, "true")],
        [("remote.log.copy.disable", SET, "true")],
        [("leader.replication.throttled.replicas", SET, "x")],
        [("leader.replication.throttled.replicas", SET, "0:1,1:2")],
    ],
)
def test_what_does_not_fit_together(both: Any, changes: list[Change]) -> None:
    both.same(alter(TOPIC, both.topic(), *changes, validate_only=True), 1)


def test_values_are_shown_as_they_are_understood(both: Any) -> None:
    topic = both.topic()
    changes = [
        ("retention.ms", SET, " 500 "),
        ("cleanup.policy", SET, "compact , delete"),
        ("preallocate", SET, "TRUE"),
        ("min.cleanable.dirty.ratio", SET, ".5"),
        ("internal.segment.bytes", SET, "1000000"),
    ]
    both.same(alter(TOPIC, topic, *changes), 1)
    both.settled(described(TOPIC, topic), 4)


@pytest.mark.parametrize(
    "changes",
    [
        [("log.retention.ms", "5000")],
        [("log.roll.ms", "6000"), ("log.roll.jitter.ms", "7")],
        [("log.flush.interval.ms", "5000")],
        [("log.cleanup.policy", "delete , compact"), ("compression.type", "zstd")],
        [("log.segment.bytes", "2000000"), ("log.index.size.max.bytes", "1000")],
        [("custom.key", "x"), ("listener.name.plaintext.max.connections", "500")],
        [("leader.replication.throttled.rate", "1000")],
    ],
)
@pytest.mark.parametrize("name", ["1", ""])
def test_a_brokers_keys_show_in_its_topics(both: Any, name: str, changes: list[tuple[str, str]]) -> None:
    topic = both.topic(retention_ms="1")
    keys = [key for key, _ in changes]
    try:
        both.same(alter(BROKER, name, *((key, SET, value) for key, value in changes)), 1)
        both.settled(described(TOPIC, topic), 4)
        both.settled(described(BROKER, "1", *keys, "log.retention.hours", "log.roll.hours", "max.connections"), 4)
        both.settled(described(BROKER, "", *keys), 4)
    finally:
        both.same(alter(BROKER, name, *((key, DELETE, None) for key in keys)), 1)
        both.settled(described(BROKER, name, *keys), 4)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.retention.ms", "0"),
        ("log.roll.ms", "0"),
        ("log.roll.jitter.ms", "-5"),
        ("log.cleaner.threads", "3"),
        ("num.io.threads", "17"),
        ("num.io.threads", "16"),
        ("num.io.threads", "3"),
        ("num.io.threads", "0"),
        ("ssl.keystore.location", "/x"),
        ("listener.name.plaintext.ssl.keystore.location", "/x"),
        ("listener.name.plaintext.max.connections", "x"),
        ("max.connections", "-1"),
        ("max.connections.per.ip", "0"),
        ("max.connections.per.ip.overrides", "a:b"),
        ("max.connection.creation.rate", "0"),
        ("metric.reporters", "foo"),
        ("compression.type", "foo"),
        ("log.cleanup.policy", ""),
        ("producer.id.expiration.ms", "0"),
        ("producer.id.expiration.ms", "1000"),
        ("log.local.retention.ms", "99999999999"),
        ("log.local.retention.ms", "-1"),
        ("log.cleaner.dedupe.buffer.size", "10"),
        ("principal.builder.class", "foo"),
        ("group.consumer.assignment.interval.ms", "5"),
        ("group.consumer.assignment.interval.ms", "50000"),
        ("remote.log.reader.threads", "50"),
        ("cordoned.log.dirs", "/nowhere"),
        ("sasl.jaas.config", "x"),
        ("log.flush.interval.ms", "-5"),
        ("log.cleaner.min.compaction.lag.ms", "5"),
        ("transaction.partition.verification.enable", "x"),
    ],
)
@pytest.mark.parametrize("name", ["1", ""])
def test_what_a_broker_can_be_told(both: Any, name: str, key: str, value: str) -> None:
    both.same(alter(BROKER, name, (key, SET, value), validate_only=True), 1)


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT, 7])
@pytest.mark.parametrize("key", ["log.cleanup.policy", "log.retention.ms", "no.such.key"])
def test_lists_of_a_broker(both: Any, operation: int, key: str) -> None:
    both.same(alter(BROKER, "1", (key, operation, "compact"), validate_only=True), 1)


@pytest.mark.parametrize(
    "changes",
    [
        [("metrics", SET, "a,b"), ("interval.ms", SET, "2000"), ("match", SET, "client_id=x")],
        [("interval.ms", SET, "5")],
        [("interval.ms", SET, "x")],
        [("match", SET, "x")],
        [("match", SET, "client_id=[")],
        [("metrics", APPEND, "a")],
        [("nope", SET, "x")],
        [("nope", DELETE, None)],
    ],
)
def test_client_metrics(both: Any, changes: list[Change]) -> None:
    name = both.new_name("subscription")
    both.same(alter(CLIENT_METRICS, name, *changes), 1)
    both.settled(described(CLIENT_METRICS, name), 4)
    both.same(alter(CLIENT_METRICS, name, *((key, DELETE, None) for key in ("metrics", "interval.ms", "match"))), 1)
    both.same(alter(CLIENT_METRICS, "", *changes, validate_only=True), 1)


@pytest.mark.parametrize(
    "changes",
    [
        [("root", SET, "WARN")],
        [("root", SET, "warn")],
        [("root", DELETE, None)],
        [("root", APPEND, "WARN")],
        [("root", 9, "WARN")],
        [("root", SET, None)],
        [("no.such.logger", SET, "INFO")],
    ],
)
@pytest.mark.parametrize("name", ["1", "2", "x", ""])
def test_loggers(both: Any, name: str, changes: list[Change]) -> None:
    both.same(alter(BROKER_LOGGER, name, *changes, validate_only=True), 1)


@pytest.mark.parametrize(
    "types", [[TOPIC], [BROKER], [BROKER_LOGGER], [CLIENT_METRICS], [GROUP], [1], [0], [TOPIC, 99]]
)
def test_what_has_configs(both: Any, types: list[int]) -> None:
    both.same(ListConfigResourcesRequest(resource_types=types), 1)


def test_everything_that_has_configs(both: Any) -> None:
    group, subscription, topic = both.new_name("group"), both.new_name("subscription"), both.topic()
    both.same(alter(GROUP, group, ("consumer.session.timeout.ms", SET, "50000")), 1)
    both.same(alter(CLIENT_METRICS, subscription, ("metrics", SET, "a")), 1)
    both.settled(ListConfigResourcesRequest(), 1)
    both.settled(ListConfigResourcesRequest(), 0)
    both.same(alter(GROUP, group, ("consumer.session.timeout.ms", DELETE, None)), 1)
    both.same(alter(CLIENT_METRICS, subscription, ("metrics", DELETE, None)), 1)
    both.settled(ListConfigResourcesRequest(), 1)
    both.delete_topic(topic)
    both.settled(ListConfigResourcesRequest(), 1)
