"""All groups of a shard by name, whatever their kind, and the groups of one kind among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeAlias, TypeVar

from barnabas.core.coordinator.timeline import TimelineDict
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.groups.state import ClassicGroup
from barnabas.core.groups.streams.group import StreamsGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup
G = TypeVar("G", ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup)


class GroupsOfKind(Generic[G]):
    """To read from: a group of another kind is not there."""

    def __init__(self, groups: TimelineDict[str, Group], kind: type[G]) -> None:
        self._groups = groups
        self._kind: type[G] = kind

    def get(self, group_id: str) -> G | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, self._kind) else None

    def committed(self, group_id: str) -> G | None:
        group = self._groups.committed(group_id)
        return group if isinstance(group, self._kind) else None

    def values(self) -> Iterator[G]:
        return (group for group in self._groups.values() if isinstance(group, self._kind))
