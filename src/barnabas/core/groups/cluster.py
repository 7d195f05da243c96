"""What groups see of the cluster: which topics there are, with how many partitions, on brokers of which racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from barnabas.wire.uuids import Uuid


class PartitionView(Protocol):
    @property
    def replicas(self) -> Sequence[int]: ...


class TopicView(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def partitions(self) -> Mapping[int, PartitionView]: ...


class BrokerView(Protocol):
    @property
    def rack(self) -> str | None: ...


class Cluster(Protocol):
    """The image of the metadata is one."""

    @property
    def topics(self) -> Mapping[str, TopicView]: ...

    @property
    def topic_names(self) -> Mapping[Uuid, str]: ...

    @property
    def brokers(self) -> Mapping[int, BrokerView]: ...

    @property
    def offset(self) -> int: ...


class NoTopics:
    """Before anything is known."""

    topics: Mapping[str, TopicView] = {}
    topic_names: Mapping[Uuid, str] = {}
    brokers: Mapping[int, BrokerView] = {}
    offset = -1


NO_TOPICS: Cluster = NoTopics()
