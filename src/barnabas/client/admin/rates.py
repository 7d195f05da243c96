"""What moves in a cluster, measured by looking twice: records and bytes written, records read by groups, lag."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.groups import committed_offsets, list_groups
from barnabas.client.errors import ClientError
from barnabas.client.metadata import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster


class Look(NamedTuple):
    at: float
    ends: dict[TopicPartition, int]
    sizes: dict[TopicPartition, int]  # bytes of one replica: the largest
    committed: dict[tuple[str, TopicPartition], int]
    states: dict[str, str]


class PartitionRate(NamedTuple):
    topic: str
    partition: int
    records: float | None  # a second; None after the first look
    bytes: float | None
    end: int
    size: int


class TopicRate(NamedTuple):
    topic: str
    partitions: int
    records: float | None
    bytes: float | None
    end: int
    size: int


class GroupRate(NamedTuple):
    group: str
    state: str
    records: float | None
    lag: int


def look(cluster: Cluster, *, internal: bool) -> Look:
    topics = cluster.metadata().topics
    wanted = {
        (name, index): -1
        for name, topic in topics.items()
        if internal or not topic.is_internal
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    }
    ends = {each: at.offset for each, at in cluster.list_offsets(wanted).items()} if wanted else {}
    listings = list_groups(cluster)
    committed = {
        (listing.group, partition): at.offset
        for listing in listings
        for partition, at in committed_offsets(cluster, listing.group).items()
    }
    states = {listing.group: listing.state for listing in listings}
    return Look(time.monotonic(), ends, _sizes(cluster), committed, states)


def _sizes(cluster: Cluster) -> dict[TopicPartition, int]:
    """Nothing where the directories may not be described."""
    from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    sizes: dict[TopicPartition, int] = {}
    for node_id in cluster.metadata([]).brokers:
        try:
            answer = cluster.ask_node(node_id, DescribeLogDirsRequest(topics=None))
        except ClientError:
            continue
        for directory in answer.results:
            for topic in directory.topics:
                for partition in topic.partitions:
                    key = (topic.name, partition.partition_index)
                    sizes[key] = max(sizes.get(key, 0), partition.partition_size)
    return sizes


def partition_rates(now: Look, before: Look | None) -> list[PartitionRate]:
    rates = [
        PartitionRate(
            *each,
            _rate(now, before, end, None if before is None else before.ends.get(each)),
            _rate(now, before, now.sizes.get(each, 0), None if before is None else before.sizes.get(each)),
            end,
            now.sizes.get(each, 0),
        )
        for each, end in now.ends.items()
    ]
    return sorted(rates, key=lambda rate: (-(rate.records or 0), -rate.end, rate.topic, rate.partition))


def topic_rates(rates: list[PartitionRate]) -> list[TopicRate]:
    by_topic: dict[str, list[PartitionRate]] = {}
    for rate in rates:
        by_topic.setdefault(rate.topic, []).append(rate)
    found = [
        TopicRate(
            topic,
            len(each),
            _sum([rate.records for rate in each]),
            _sum([rate.bytes for rate in each]),
            sum(rate.end for rate in each),
            sum(rate.size for rate in each),
        )
        for topic, each in by_topic.items()
    ]
    return sorted(found, key=lambda rate: (-(rate.records or 0), -rate.end, rate.topic))


def group_rates(now: Look, before: Look | None) -> list[GroupRate]:
    rates: list[GroupRate] = []
    for group, state in now.states.items():
        offsets = {each: offset for (name, each), offset in now.committed.items() if name == group}
        lag = sum(max(now.ends[each] - offset, 0) for each, offset in offsets.items() if each in now.ends)
        moved = [
            _rate(now, before, offset, None if before is None else before.committed.get((group, each)))
            for each, offset in offsets.items()
        ]
        rates.append(GroupRate(group, state, _sum(moved), lag))
    return sorted(rates, key=lambda rate: (-(rate.records or 0), -rate.lag, rate.group))


def _rate(now: Look, before: Look | None, value: int, earlier: int | None) -> float | None:
    """A partition that was not there at the first look began at 0; what was deleted since is no negative rate."""
    if before is None:
        return None
    return max(value - (earlier or 0), 0) / max(now.at - before.at, 0.001)


def _sum(rates: list[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
