"""Offsets that groups have committed: read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas.client.cluster import Attempts, Cluster
from barnabas.client.errors import Refused, TimedOut, known_code
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.wire.messages.offset_fetch import OffsetFetchRequest

LAST_COMMIT_VERSION_WITH_NAMES = 9
LAST_FETCH_VERSION_WITH_NAMES = 9
FIRST_FETCH_VERSION_WITH_GROUPS = 8
RETRIED = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT})
NO_OFFSET = -1
T = TypeVar("T")


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, CommittedOffset]:
    """Of these partitions, or of all that the group has committed; those without an offset are left out.

    With `require_stable`, an offset that an open transaction may change is waited for.
    """
    from barnabas.wire.messages.offset_fetch import OffsetFetchRequest

    attempts = Attempts.brisk(cluster.settings)
    by_topic = None if partitions is None else grouped(partitions)
    while True:
        newest = cluster.coordinator_version("group", group_id, OffsetFetchRequest, attempts)
        version = min(newest, LAST_FETCH_VERSION_WITH_NAMES)
        answer = cluster.ask_coordinator(
            "group", group_id, _request(group_id, by_topic, require_stable, version), version=version
        )
        found = answer.groups[0] if version >= FIRST_FETCH_VERSION_WITH_GROUPS else answer
        codes = {known_code(found.error_code)} | {
            known_code(each.error_code) for topic in found.topics for each in topic.partitions
        }
        if codes & RETRIED:
            if not attempts.pause():
                raise TimedOut(f"Offsets of group {group_id} are part of a transaction that does not end.")
            continue
        if problems := codes - {ErrorCode.NONE}:
            raise Refused(min(problems), f"Offsets of group {group_id} cannot be read")
        return {
            (topic.name, each.partition_index): CommittedOffset(
                each.committed_offset, each.metadata or "", each.committed_leader_epoch
            )
            for topic in found.topics
            for each in topic.partitions
            if each.committed_offset != NO_OFFSET
        }


def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    generation_id: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
    within_ms: int | None = None,
) -> None:
    """By a member of the group, or by anybody while it has none. Raises Refused, REBALANCE_IN_PROGRESS among others."""
    from barnabas.wire.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=commit_topics(offsets, OffsetCommitRequestTopic, OffsetCommitRequestPartition),
    )
    attempts = Attempts(cluster.settings, within_ms)
    newest = cluster.coordinator_version("group", group_id, OffsetCommitRequest, attempts)
    version = min(newest, LAST_COMMIT_VERSION_WITH_NAMES)
    answer = cluster.ask_coordinator("group", group_id, request, version=version, within_ms=within_ms)
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code:
                name = f"{topic.name}-{partition.partition_index}"
                raise Refused(partition.error_code, f"Group {group_id} could not commit an offset of {name}")


def commit_topics(
    offsets: Mapping[TopicPartition, CommittedOffset], topic: Callable[..., T], partition: Callable[..., object]
) -> list[T]:
    """As requests that commit offsets list them; they have the same fields in structs of their own."""
    return [
        topic(
            name=name,
            partitions=[
                partition(
                    partition_index=index,
                    committed_offset=offsets[name, index].offset,
                    committed_leader_epoch=offsets[name, index].leader_epoch,
                    committed_metadata=offsets[name, index].metadata,
                )
                for index in sorted(indexes)
            ],
        )
        for name, indexes in grouped(offsets).items()
    ]


def grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def _request(
    group_id: str, by_topic: Mapping[str, list[int]] | None, require_stable: bool, version: int
) -> OffsetFetchRequest:
    from barnabas.wire.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

    if version < FIRST_FETCH_VERSION_WITH_GROUPS:
        old = (
            None
            if by_topic is None
            else [OffsetFetchRequestTopic(name=topic, partition_indexes=indexes) for topic, indexes in by_topic.items()]
        )
        return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=require_stable)
    topics = (
        None
        if by_topic is None
        else [OffsetFetchRequestTopics(name=topic, partition_indexes=indexes) for topic, indexes in by_topic.items()]
    )
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=require_stable
    )
