"""Settings of groups are worked out once, and anew when the broker's or the group's configuration has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.core.controller.configs import GROUP_RESOURCE
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.broker import group_settings
from barnabas.node.broker.group_settings import GroupSettingsCache


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
