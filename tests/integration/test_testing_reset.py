"""A node between two tests: `reset` leaves nothing of the first one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from barnabas.testing import Node
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
LIMIT_S = 20.0


@pytest.fixture
def node(barnabas: Node) -> Node:
    return barnabas


def partitions(node: Node) -> dict[str, int]:
    with node.connect() as connection:
        return {each.name: len(each.partitions) for each in connection.request(MetadataRequest(topics=None)).topics}


def set_config(node: Node, kind: int, name: str, key: str, value: str) -> None:
    entry = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[entry])
    with node.connect() as connection:
        (answer,) = connection.request(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == 0, answer.error_message


def dynamic_configs(node: Node) -> dict[tuple[int, str, str], str]:
    static_sources = (4, 5)
    with node.connect() as connection:
        listed = connection.request(ListConfigResourcesRequest()).config_resources
        wanted = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in [(BROKER, ""), *((each.resource_type, each.resource_name) for each in listed)]
            if kind in (TOPIC, BROKER, CLIENT_METRICS, GROUP)
        ]
        results = connection.request(DescribeConfigsRequest(resources=wanted)).results
    return {
        (result.resource_type, result.resource_name, entry.name): entry.value
        for result in results
        for entry in result.configs
        if entry.config_source not in static_sources
    }


def test_reset_forgets_topics_and_everything_that_was_configured(node: Node) -> None:
    fresh = {(BROKER, "", "min.insync.replicas"): "1", (BROKER, "1", "min.insync.replicas"): "1"}
    assert dynamic_configs(node) == fresh
    node.create_topic("orders", 3, {"retention.ms": 1000})
    set_config(node, TOPIC, "orders", "max.message.bytes", "5000")
    set_config(node, BROKER, "1", "log.cleaner.backoff.ms", "1")
    set_config(node, BROKER, "", "log.retention.ms", "123456")
    set_config(node, BROKER, "", "min.insync.replicas", "2")
    set_config(node, GROUP, "readers", "consumer.session.timeout.ms", "50000")
    set_config(node, CLIENT_METRICS, "subscription", "interval.ms", "60000")
    assert len(dynamic_configs(node)) >= 6
    node.reset()
    assert partitions(node) == {}
    assert dynamic_configs(node) == fresh
    node.restart()
    assert partitions(node) == {}
    assert dynamic_configs(node) == fresh
    node.create_topic("orders")
    assert partitions(node) == {"orders": 1}


def test_a_topic_after_a_reset_is_empty(node: Node) -> None:
    offsets = []
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for _ in range(3):
        node.create_topic("orders")
        producer.produce("orders", b"one", on_delivery=lambda error, message: offsets.append((error, message.offset())))
        assert producer.flush(LIMIT_S) == 0
        node.reset()
    assert offsets == [(None, 0)] * 3, "the producer stayed connected all the time"


def test_resets_at_once_and_while_clients_are_at_work(node: Node) -> None:
    done = threading.Event()

    def keep_asking() -> None:
        with node.connect() as connection:
            while not done.is_set():
                names = [MetadataRequestTopic(name=f"asked-for-{number}") for number in range(5)]
                connection.request(MetadataRequest(topics=names))

    with ThreadPoolExecutor(6) as threads:
        asking = [threads.submit(keep_asking) for _ in range(2)]
        resets = [threads.submit(node.reset) for _ in range(20)]
        for each in resets:
            each.result(LIMIT_S)
        done.set()
        for each in asking:
            each.result(LIMIT_S)
    node.reset()
    assert partitions(node) == {}


def test_a_reset_takes_milliseconds(node: Node) -> None:
    """Generous, for the machine may be busy: starting a node again would take ten times as long."""
    node.reset()
    durations = []
    for _ in range(5):
        for number in range(3):
            node.create_topic(f"topic-{number}")
        began = time.monotonic()
        node.reset()
        durations.append(time.monotonic() - began)
    assert min(durations) < 0.05
