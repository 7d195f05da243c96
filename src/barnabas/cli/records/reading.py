"""Reading topics without a group: where to begin, records in the order of their coming, and where to end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.cli.connect import unknown_topic
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.client.metadata import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher
    from barnabas.client.records import ConsumerRecord

EARLIEST, LATEST = -2, -1
POLL_MS = 200
STARTS_SHOWN = 3
BEGINNING = ("beginning", "earliest", "start")


def partitions_of(cluster: Cluster, topics: Iterable[str], wanted: Iterable[int] = ()) -> list[TopicPartition]:
    """Every partition of the topics, or those of the numbers wanted."""
    names = list(topics)
    known = cluster.metadata(names).topics
    chosen = list(wanted)
    found: list[TopicPartition] = []
    for name in names:
        topic = known.get(name)
        if topic is None or topic.error:
            raise unknown_topic(name, cluster.metadata().topics)
        for index in chosen or topic.partitions:
            if index not in topic.partitions:
                raise no_partition(name, index, len(topic.partitions))
            found.append((name, index))
    return found


def no_partition(topic: str, index: int, count: int) -> ToolFailed:
    return ToolFailed(f"Topic '{topic}' has no partition {index}: it has {count}, numbered from 0.")


def start_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], begin: str, now_ms: int
) -> dict[TopicPartition, int]:
    """`begin` is beginning, end, an offset, the last so many (-10), or a point in time (@5m, @2024-05-01)."""
    partitions = list(partitions)
    if begin in BEGINNING:
        return _listed(cluster, partitions, EARLIEST)
    if begin in ("end", "latest"):
        return _listed(cluster, partitions, LATEST)
    if begin.startswith("@"):
        from barnabas.cli.arguments.points_in_time import since_ms

        return offsets_since(cluster, partitions, since_ms(begin[1:], now_ms))
    try:
        offset = int(begin)
    except ValueError:
        raise UsageError(
            f"{begin} is no place to begin: use beginning, end, an offset, -N for the last N records, or @5m."
        ) from None
    if offset >= 0:
        return dict.fromkeys(partitions, offset)
    starts, ends = _listed(cluster, partitions, EARLIEST), _listed(cluster, partitions, LATEST)
    return {partition: max(starts[partition], ends[partition] + offset) for partition in partitions}


def later_starts(starts: Mapping[TopicPartition, int]) -> str:
    """A hint for who reads from the beginning: where logs begin behind offset 0; "" if none does."""
    later = [(each, offset) for each, offset in sorted(starts.items()) if offset > 0]
    if not later:
        return ""
    shown = ", ".join(f"offset {offset} of {topic}-{index}" for (topic, index), offset in later[:STARTS_SHOWN])
    more = f" and of {len(later) - STARTS_SHOWN} more partitions" if len(later) > STARTS_SHOWN else ""
    return f"Records before {shown}{more} were deleted, by retention or by DeleteRecords: reading begins behind them."


def offsets_since(cluster: Cluster, partitions: Iterable[TopicPartition], at_ms: int) -> dict[TopicPartition, int]:
    """The first record not older than that; the end where there is none."""
    partitions = list(partitions)
    found = _listed(cluster, partitions, at_ms)
    ends = _listed(cluster, partitions, LATEST)
    return {each: offset if offset >= 0 else ends[each] for each, offset in found.items()}


def end_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], isolation: str = "read_uncommitted"
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(partitions, LATEST)
    return {each: at.offset for each, at in cluster.list_offsets(wanted, isolation=isolation).items()}


def _listed(cluster: Cluster, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
    return {each: found.offset for each, found in cluster.list_offsets(dict.fromkeys(partitions, at)).items()}


def read(
    fetcher: Fetcher,
    positions: Mapping[TopicPartition, int],
    *,
    until: Mapping[TopicPartition, int] | None = None,
    idle_ms: int | None = None,
) -> Iterator[list[ConsumerRecord]]:
    """Records, some at a time, from the positions on: to the offsets of `until`, or for ever.

    An empty list comes whenever a while passes without records. Ends after `idle_ms` without any, if that is given.
    """
    from barnabas.client.errors import OffsetOutOfRange
    from barnabas.client.records import iterate_records

    fetcher.assign(positions)
    last_at = time.monotonic()
    while until is None or not _reached(fetcher.positions, until):
        try:
            fetched = fetcher.poll(POLL_MS)
        except OffsetOutOfRange as gap:
            place = gap.log_start_offset if gap.offset < gap.log_start_offset else gap.log_end_offset
            fetcher.seek(gap.topic, gap.partition, place)
            continue
        records = [record for each in fetched for record in iterate_records(each)]
        if until is not None:
            records = [each for each in records if each.offset < until[each.topic, each.partition]]
        yield records
        if records:
            last_at = time.monotonic()
        elif idle_ms is not None and (time.monotonic() - last_at) * 1000 >= idle_ms:
            return


def _reached(positions: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]) -> bool:
    return all(positions[partition] >= offset for partition, offset in until.items())
