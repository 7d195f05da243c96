"""Settings of groups are worked out once, and anew when the broker's or the group's configuration has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.core.controller.configs import GROUP_RESOURCE
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.broker import group_settings
from barnabas.node.broker.coordinators.groups import consumer_settings, streams_settings
from barnabas.node.broker.group_settings import GroupSettingsCache
from barnabas.node.broker.shares.settings import delivery_settings
from barnabas.node.configuration import BrokerConfig


class Node:
    def __init__(self) -> None:
        self.config: Any = object()
        self.image = MetadataImage()


def test_settings_follow_the_configs_and_are_worked_out_once() -> None:
    node, worked_out = Node(), []

    def work_out(config: Any, own: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
        worked_out.append(own)
        return config, dict(own)

    settings = GroupSettingsCache(node, work_out)
    for _ in range(3):
        assert [settings.of(group) for group in ("a", "b")] == [(node.config, {})] * 2
    assert len(worked_out) == 1
    node.image.configs[GROUP_RESOURCE, "a"] = {"consumer.session.timeout.ms": "60000"}
    assert settings.of("a") == (node.config, {"consumer.session.timeout.ms": "60000"})
    node.image.configs[GROUP_RESOURCE, "a"]["consumer.session.timeout.ms"] = "50000"  # changed in place
    assert settings.of("a") == (node.config, {"consumer.session.timeout.ms": "50000"})
    assert settings.of("b") == (node.config, {})
    assert len(worked_out) == 3
    node.config = object()
    assert [settings.of(group)[0] for group in ("a", "b")] == [node.config] * 2


def test_configs_that_differ_for_each_group_do_not_fill_the_memory() -> None:
    node = Node()
    settings = GroupSettingsCache(node, lambda config, own: dict(own))
    for number in range(2 * group_settings.KEPT):
        node.image.configs[GROUP_RESOURCE, f"g{number}"] = {"share.session.timeout.ms": str(number)}
        assert settings.of(f"g{number}") == {"share.session.timeout.ms": str(number)}
    assert len(settings._known) <= group_settings.KEPT + 1


def test_configs_outside_the_brokers_bounds_count_as_the_nearest() -> None:
    config = BrokerConfig(
        {
            "group.consumer.max.session.timeout.ms": "50000",
            "group.consumer.min.heartbeat.interval.ms": "4000",
            "group.streams.max.standby.replicas": "1",
            "group.share.max.delivery.count.limit": "6",
        }
    )
    own = {
        "consumer.session.timeout.ms": "60000",
        "consumer.heartbeat.interval.ms": "3000",
        "streams.num.standby.replicas": "2",
        "share.delivery.count.limit": "8",
        "share.record.lock.duration.ms": "20000",
    }
    consumer, deliveries = consumer_settings(config, own), delivery_settings(config, own)
    assert (consumer.session_timeout_ms, consumer.heartbeat_interval_ms) == (50_000, 4_000)
    assert streams_settings(config, own).num_standby_replicas == 1
    assert (deliveries.most_deliveries, deliveries.lock_duration_ms) == (6, 20_000)
