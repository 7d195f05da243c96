"""Settings of groups by their configs, worked out once: heartbeats, fetches and acknowledgements ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from barnabas.core.controller.configs import GROUP_RESOURCE
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig

S = TypeVar("S")

# Different configs, not groups: nearly all groups have none, and of the others most have the same.
KEPT = 1_000
NONE: Mapping[str, str] = {}


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
