"""DescribeConfigs: values, where they come from, and what is not there."""

from typing import Any

import pytest

from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def asked(type_: int, name: str, keys: list[str] | None = None, **rest: Any) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=type_, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource], **rest)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("synonyms", [False, True])
def test_a_topic_with_all_its_keys(both: Any, version: int, synonyms: bool) -> None:
    topic = both.topic(retention_ms="1000", cleanup_policy="compact")
    both.same(asked(TOPIC, topic, include_synonyms=synonyms), version)


def test_documentation_on_demand(both: Any) -> None:
    topic = both.topic()
    both.same(asked(TOPIC, topic, include_documentation=True), 4)
    both.same(asked(TOPIC, topic, ["retention.ms"], include_documentation=False), 4)


@pytest.mark.parametrize(
    "keys", [["retention.ms"], ["retention.ms", "no.such.key"], ["no.such.key"], [], ["retention.ms", "retention.ms"]]
)
def test_only_some_keys(both: Any, keys: list[str]) -> None:
    both.same(asked(TOPIC, both.topic(retention_ms="77"), keys, include_synonyms=True), 4)


@pytest.mark.parametrize("name", ["not-there", "", "a/b"])
def test_topics_that_are_not_there(both: Any, name: str) -> None:
    both.same(asked(TOPIC, name), 4)


@pytest.mark.parametrize("name", ["2", "x", "-1"])
def test_brokers_that_are_not_us(both: Any, name: str) -> None:
    both.same(asked(BROKER, name, ["log.retention.ms"]), 4)


def test_the_default_of_all_brokers(both: Any) -> None:
    both.same(asked(BROKER, "", include_synonyms=True), 4)


@pytest.mark.parametrize("synonyms", [False, True])
@pytest.mark.parametrize(
    "key",
    [
        "node.id",
        "log.retention.ms",
        "log.retention.hours",
        "log.segment.bytes",
        "auto.create.topics.enable",
        "process.roles",
        "num.partitions",
        "message.max.bytes",
        "log.cleaner.threads",
        "ssl.keystore.password",
        "group.initial.rebalance.delay.ms",
        "min.insync.replicas",
        "compression.type",
        "offsets.topic.replication.factor",
        "controller.listener.names",
        "super.users",
        "log.roll.ms",
        "unclean.leader.election.enable",
        "background.threads",
        "max.connections.per.ip.overrides",
        "advertised.listeners.no.such",
    ],
)
def test_keys_of_our_broker(both: Any, key: str, synonyms: bool) -> None:
    both.same(asked(BROKER, "1", [key], include_synonyms=synonyms), 4)


def test_which_keys_a_broker_has(both: Any) -> None:
    """Values differ by directory and port; names, types and what is read-only do not."""
    both.same(asked(BROKER, "1"), 4, ignoring=["value", "config_source"])


@pytest.mark.parametrize("type_", [0, 1, 3, 5, 64, -1, CLIENT_METRICS, GROUP, BROKER_LOGGER])
def test_other_types(both: Any, type_: int) -> None:
    both.same(asked(type_, "1", ["x"]), 4)


@pytest.mark.parametrize("synonyms", [False, True])
def test_a_group(both: Any, synonyms: bool) -> None:
    both.same(asked(GROUP, "any", include_synonyms=synonyms), 4)
    both.same(asked(GROUP, "", include_synonyms=synonyms), 4)


def test_client_metrics(both: Any) -> None:
    both.same(asked(CLIENT_METRICS, "any"), 4)
    both.same(asked(CLIENT_METRICS, ""), 4)


def test_several_at_once(both: Any) -> None:
    first, second = both.topic(), both.topic()
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"])
        for name in (second, "not-there", first, first)
    ]
    both.same(DescribeConfigsRequest(resources=resources), 4)


def test_nothing_asked(both: Any) -> None:
    both.same(DescribeConfigsRequest(), 4)
