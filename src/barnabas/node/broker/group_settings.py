"""Settings of groups by their configs, worked out once: heartbeats, fetches and acknowledgements ask for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from barnabas.core.controller.configs import GROUP_RESOURCE
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.definition import Value
from barnabas.node.configuration.definitions import BROKER, group_definitions
from barnabas.node.configuration.layers import parse_known

S = TypeVar("S")

log = logging.getLogger("barnabas.groups")

# Different configs, not groups: nearly all groups have none, and of the others most have the same.
KEPT = 1_000
NONE: Mapping[str, str] = {}


# All others have a name that follows from the group's own.
BOUNDS = {"streams.num.standby.replicas": ("", "group.streams.max.standby.replicas")}


class Configured(Protocol):
    @property
    def config(self) -> BrokerConfig: ...

    @property
    def image(self) -> MetadataImage: ...


class GroupSettingsCache(Generic[S]):
    def __init__(self, node: Configured, work_out: Callable[[BrokerConfig, Mapping[str, str]], S]) -> None:
        """`work_out` is given the broker's configuration and the configs that a group has of its own."""
        self._node = node
        self._work_out = work_out
        self._config: BrokerConfig | None = None
        self._known: dict[tuple[tuple[str, str], ...], S] = {}

    def of(self, group_id: str) -> S:
        """As the configurations of broker and group are now."""
        config = self._node.config
        if config is not self._config or len(self._known) > KEPT:
            self._config = config
            self._known.clear()
        own = self._node.image.configs.get((GROUP_RESOURCE, group_id), NONE)
        key = tuple(own.items())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._work_out(config, own)
        return found


def own_values(config: BrokerConfig, own: Mapping[str, str]) -> dict[str, Value]:
    """The configs that a group has of its own. What is outside the broker's bounds, which may have changed since it was
    set, counts as the nearest bound."""
    return {key: _within_bounds(config, key, value) for key, value in parse_known(own, group_definitions()).items()}


def _within_bounds(config: BrokerConfig, key: str, value: Value) -> Value:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    kind, _, name = key.partition(".")
    lowest, highest = BOUNDS.get(key, (f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"))
    bounded = value
    if lowest in BROKER:
        bounded = max(bounded, _number(config, lowest))
    if highest in BROKER:
        bounded = min(bounded, _number(config, highest))
    if bounded != value:
        log.warning("config %s=%d of a group is out of this broker's bounds: %d counts instead", key, value, bounded)
    return bounded


def _number(config: BrokerConfig, key: str) -> int:
    value = config.value(key)
    assert isinstance(value, int), key
    return value
