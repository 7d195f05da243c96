"""What a topology needs of the cluster: which topics, with how many partitions, and how many tasks follow from that.

An application says which topics each of its subtopologies reads and writes. Topics that users made must exist. Internal
ones, for repartitioning and as changelogs of state, get their partitions from what flows into them, and are to be
created where they are missing. A topology is ready when all topics are there and fit together; until then its group has
no tasks, and members are told why by a status.

Where Kafka goes through a `HashMap` the order is its order, so that statuses name the same topics.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.java_order import java_ordered
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from barnabas.wire.records.streams_groups import StreamsGroupTopologyValue, Subtopology, TopicInfo

NAMES_SHOWN = 3
DEFAULT_REPLICATION_FACTOR = -1


class StatusCode(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Problem(NamedTuple):
    """Why a topology is not ready."""

    code: StatusCode
    detail: str


class NotReady(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class Topology:
    """As an application declared it. Subtopologies by id, in Java's order."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        by_id = {each.subtopology_id: each for each in value.subtopologies}
        self.value = value
        self.epoch = value.epoch
        self.subtopologies: Mapping[str, Subtopology] = {each: by_id[each] for each in java_ordered(by_id)}
        # The subtopology that reads a topic.
        self.readers: dict[str, str] = {}
        names: dict[str, None] = {}
        for subtopology_id, each in self.subtopologies.items():
            sources = dict.fromkeys([*each.source_topics, *_names(each.repartition_source_topics)])
            self.readers |= dict.fromkeys(sources, subtopology_id)
            names |= sources
            names |= dict.fromkeys(_names(each.state_changelog_topics))
        self.required_topics = frozenset(names)

    def is_same_as(self, other: Topology) -> bool:
        return self.epoch == other.epoch and dict(self.subtopologies) == dict(other.subtopologies)


@dataclass(frozen=True, slots=True)
class InternalTopic:
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    tasks: int
    source_topics: frozenset[str]
    repartition_sink_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    @property
    def sources(self) -> list[str]:
        return sorted(self.source_topics | set(self.repartition_source_topics))


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """`subtopologies` are None if they cannot be known; otherwise in the order of their ids."""

    epoch: int
    metadata_hash: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    to_create: Mapping[str, CreatableTopic]
    problem: Problem | None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, metadata_hash: int, cluster: Cluster) -> ConfiguredTopology:
    """Raises STREAMS_INVALID_TOPOLOGY for what no topics could make right."""
    try:
        _require_sources(topology, cluster)
        subtopologies = _configured(topology, cluster)
        to_create = _missing_topics(subtopologies, topology, cluster)
    except NotReady as reason:
        return ConfiguredTopology(topology.epoch, metadata_hash, None, {}, reason.problem)
    problem = None
    if to_create:
        detail = f"Internal topics are missing: {_summary(to_create)}"
        problem = Problem(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, metadata_hash, subtopologies, to_create, problem)


def _require_sources(topology: Topology, cluster: Cluster) -> None:
    topics = cluster.topics
    named = (name for each in topology.subtopologies.values() for name in each.source_topics)
    missing = sorted({name for name in named if name not in topics})
    if missing:
        detail = f"Source topics {_summary(missing)} are missing."
        raise NotReady(Problem(StatusCode.MISSING_SOURCE_TOPICS, detail))


def _configured(topology: Topology, cluster: Cluster) -> dict[str, ConfiguredSubtopology]:
    decided: dict[str, int] = {}

    def size(name: str) -> int | None:
        known = cluster.topics.get(name)
        return decided.get(name) if known is None else len(known.partitions)

    subtopologies = list(topology.subtopologies.values())
    decided |= repartition_sizes(subtopologies, size)
    _enforce_copartitioning(subtopologies, size, decided)
    tasks: dict[str, int] = {}
    for each in subtopologies:
        sizes = [_sure(size, name) for name in (*each.source_topics, *_names(each.repartition_source_topics))]
        if not sizes:
            raise _invalid(f"No source topics found for subtopology {each.subtopology_id}")
        tasks[each.subtopology_id] = max(sizes)
        decided |= dict.fromkeys(_names(each.state_changelog_topics), max(sizes))
    return {
        subtopology_id: ConfiguredSubtopology(
            tasks[subtopology_id],
            frozenset(each.source_topics),
            frozenset(each.repartition_sink_topics),
            {info.name: _internal(info, decided) for info in each.repartition_source_topics},
            {info.name: _internal(info, decided) for info in each.state_changelog_topics},
        )
        for subtopology_id, each in sorted(topology.subtopologies.items())
    }


def _internal(info: TopicInfo, decided: Mapping[str, int]) -> InternalTopic:
    configs = {each.key: each.value for each in info.topic_configs}
    return InternalTopic(info.name, info.partitions or decided[info.name], info.replication_factor, configs)


def repartition_sizes(subtopologies: list[Subtopology], size: Callable[[str], int | None]) -> dict[str, int]:
    """How many partitions each repartition topic has: as declared, or as many as the largest source of its writer.

    Kafka goes through the subtopologies again and again until nothing is missing. Here the next one to look at is the
    next that Kafka would find something in: a long chain of subtopologies takes one step for each.
    """
    sizes = {
        info.name: info.partitions
        for each in subtopologies
        for info in each.repartition_source_topics
        if info.partitions
    }
    readers: dict[str, list[int]] = {}
    for at, each in enumerate(subtopologies):
        for name in _names(each.repartition_source_topics):
            readers.setdefault(name, []).append(at)
    # Rounds and places in them.
    ahead = [
        (0, at)
        for at, each in enumerate(subtopologies)
        if each.source_topics or any(name in sizes for name in _names(each.repartition_source_topics))
    ]
    done: set[int] = set()
    while ahead:
        turn, at = heapq.heappop(ahead)
        if at in done:
            continue
        done.add(at)
        each = subtopologies[at]
        known = [sizes[name] for name in _names(each.repartition_source_topics) if name in sizes]
        known += [found for found in map(size, each.source_topics) if found is not None]
        for name in each.repartition_sink_topics:
            if name not in sizes:
                sizes[name] = max(known)
                for reader in readers.get(name, ()):
                    heapq.heappush(ahead, (turn + (reader <= at), reader))
    if any(name not in sizes for each in subtopologies for name in each.repartition_sink_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that"
            " cannot be resolved."
        )
    if any(name not in sizes for name in readers):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is"
            " never used as a sink topic."
        )
    return sizes


def _enforce_copartitioning(
    subtopologies: list[Subtopology], size: Callable[[str], int | None], decided: dict[str, int]
) -> None:
    """Topics that are joined have as many partitions each; repartition topics of no declared size follow the others."""
    infos = [info for each in subtopologies for info in each.repartition_source_topics]
    fixed = {info.name: None for info in infos if info.partitions}
    flexible = {info.name for info in infos if not info.partitions}
    for each in subtopologies:
        for names in _copartition_groups(each):
            sizes = {name: _sure(size, name) for name in names}
            internal = {name: sizes[name] for name in names if name in fixed or name in flexible}
            others = {name: sizes[name] for name in names if name not in internal}
            if others:
                wanted = _same_size(others, others)
            elif fixed:
                wanted = _same_size({name: _sure(size, name) for name in fixed}, internal)
            else:
                wanted = max(internal.values())
            for name, found in internal.items():
                if name in fixed and found != wanted:
                    raise _incorrect(
                        f"Number of partitions [{found}] of repartition topic [{name}] doesn't match number of"
                        f" partitions [{wanted}] of the source topic."
                    )
            decided |= dict.fromkeys(internal, wanted)


def _copartition_groups(each: Subtopology) -> Iterable[list[str]]:
    repartitioned = _names(each.repartition_source_topics)
    for group in each.copartition_groups:
        named = [(each.source_topics, at) for at in group.source_topics]
        named += [(repartitioned, at) for at in group.repartition_source_topics]
        if any(not 0 <= at < len(names) for names, at in named):
            raise _invalid(
                f"A copartition group of subtopology {each.subtopology_id} names a topic that the subtopology does not"
                " have."
            )
        if named:
            yield java_ordered(dict.fromkeys(names[at] for names, at in named))


def _same_size(sizes: Mapping[str, int], shown: Mapping[str, int]) -> int:
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}={shown[name]}" for name in sorted(shown))
        raise _incorrect(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return next(iter(sizes.values()))


def _missing_topics(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: Topology, cluster: Cluster
) -> dict[str, CreatableTopic]:
    wanted: dict[str, InternalTopic] = {}
    for each in subtopologies.values():
        wanted |= each.repartition_source_topics
        wanted |= each.state_changelog_topics
    for name in java_ordered(topology.required_topics):
        known, internal = cluster.topics.get(name), wanted.get(name)
        if known is not None and internal is not None and len(known.partitions) != internal.partitions:
            raise _incorrect(
                f"Existing topic {name} has different number of partitions: expected {internal.partitions}, found"
                f" {len(known.partitions)}"
            )
    return {name: _creatable(wanted[name]) for name in java_ordered(wanted) if name not in cluster.topics}


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or DEFAULT_REPLICATION_FACTOR,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _names(infos: Iterable[TopicInfo]) -> list[str]:
    return [info.name for info in infos]


def _sure(size: Callable[[str], int | None], name: str) -> int:
    found = size(name)
    if found is None:
        raise _invalid(f"Number of partitions must be set for topic {name}")
    return found


def _summary(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - NAMES_SHOWN
    return ", ".join(listed[:NAMES_SHOWN]) + (f" and {more} additional topics" if more > 0 else "")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _incorrect(detail: str) -> NotReady:
    return NotReady(Problem(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail))
