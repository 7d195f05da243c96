"""Committed offsets: the same commits and questions to Apache Kafka and to our node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.wire.uuids import Uuid

from .group_stage import Stage

COMMITS = range(2, 11)
FETCHES = range(1, 11)
UNKNOWN_ID = Uuid.parse("AAAAAAAAAAAAAAAAAAABBg")


@pytest.fixture
def stage(both: Any) -> Iterator[Stage]:
    with Stage(both) as stage:
        yield stage


def commit_as(stage: Stage, version: int, topic: str, partitions: list[OffsetCommitRequestPartition]) -> None:
    """By name or by id, whatever the version has."""

    def asked(side: Any) -> OffsetCommitRequest:
        named = {"name": topic} if version < 10 else {"topic_id": side.topic_id(topic)}
        return OffsetCommitRequest(
            group_id=stage.group, topics=[OffsetCommitRequestTopic(**named, partitions=partitions)]
        )

    stage.both.same(asked, version)


def fetch_as(
    stage: Stage, version: int, topics: list[str] | None, *, stable: bool = False, partitions: int = 3
) -> None:
    indexes = list(range(partitions))
    stability = {"require_stable": stable} if version >= 7 else {}

    def asked(side: Any) -> OffsetFetchRequest:
        if version < 8:
            named = (
                None if topics is None else [OffsetFetchRequestTopic(name=t, partition_indexes=indexes) for t in topics]
            )
            return OffsetFetchRequest(group_id=stage.group, topics=named, **stability)
        found = None
        if topics is not None:
            ids = {t: side.topic_id(t) if version >= 10 and "unknown" not in t else UNKNOWN_ID for t in topics}
            found = [
                OffsetFetchRequestTopics(
                    **({"name": t} if version < 10 else {"topic_id": ids[t]}), partition_indexes=indexes
                )
                for t in topics
            ]
        groups = [
            OffsetFetchRequestGroup(group_id=stage.group, topics=found),
            OffsetFetchRequestGroup(group_id="unknown", topics=found),
        ]
        return OffsetFetchRequest(groups=groups, **stability)

    stage.both.same(asked, version)


@pytest.mark.parametrize("version", COMMITS)
def test_offsets_are_committed_without_members(stage: Stage, version: int) -> None:
    topic = stage.both.topic(2)
    commit_as(
        stage,
        version,
        topic,
        [
            OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="so far"),
            OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata=None),
            OffsetCommitRequestPartition(partition_index=2, committed_offset=7),
            OffsetCommitRequestPartition(partition_index=-1, committed_offset=7),
        ],
    )
    fetch_as(stage, 9, [topic])
    commit_as(stage, version, topic, [OffsetCommitRequestPartition(partition_index=0, committed_offset=-1)])
    commit_as(stage, version, topic, [OffsetCommitRequestPartition(partition_index=1, committed_offset=2)])
    fetch_as(stage, 9, [topic])
    fetch_as(stage, 9, None)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", FETCHES)
def test_offsets_are_fetched(stage: Stage, version: int, stable: bool) -> None:
    topic, other = stage.both.topic(2), stage.both.topic(1)
    fetch_as(stage, version, [topic], stable=stable)
    part = OffsetCommitRequestPartition(partition_index=1, committed_offset=5, committed_leader_epoch=0)
    commit_as(stage, 9, topic, [part])
    if version < 10:  # Ids are random, and so would be the order of two topics known by theirs.
        commit_as(stage, 9, other, [OffsetCommitRequestPartition(committed_offset=1, committed_metadata="x")])
    fetch_as(stage, version, [topic, "unknown"], stable=stable)
    fetch_as(stage, version, [], stable=stable)
    if version >= 2:
        fetch_as(stage, version, None, stable=stable)


def test_topics_that_are_not_there(stage: Stage) -> None:
    topic = stage.both.topic()
    stage.same("anna", stage.commit("unknown-topic", 1), 9)
    stage.same("anna", stage.commit("not/valid", 1), 9)
    stage.same("anna", stage.commit("", 1), 9)
    part = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [
        OffsetCommitRequestTopic(name="unknown-topic", partitions=part),
        OffsetCommitRequestTopic(name=topic, partitions=part),
    ]
    stage.both.same(OffsetCommitRequest(group_id=stage.group, topics=topics), 9)
    unknown = [OffsetCommitRequestTopic(topic_id=UNKNOWN_ID, partitions=part)]
    stage.both.same(OffsetCommitRequest(group_id=stage.group, topics=unknown), 10, exact={"topic_id"})
    stage.both.same(OffsetCommitRequest(group_id=stage.group, topics=[]), 9)


@pytest.mark.parametrize("size", [4096, 4097, 20_000])
def test_remarks_have_a_limit(stage: Stage, size: int) -> None:
    topic = stage.both.topic()
    stage.same("anna", stage.commit(topic, 1, metadata="x" * size), 9)
    stage.same("anna", stage.commit(topic, 1, metadata="\N{EURO SIGN}" * (size // 2)), 9)
    fetch_as(stage, 9, [topic], partitions=1)


@pytest.mark.parametrize("version", COMMITS)
def test_who_may_commit(stage: Stage, version: int) -> None:
    topic = stage.both.topic()

    def same(*args: Any, **named: Any) -> None:
        def build(ids: Any, side_ids: dict[str, Uuid]) -> Any:
            request = stage.commit(topic, *args, **named)(ids)
            if version >= 10:
                request.topics[0].name, request.topics[0].topic_id = "", side_ids[id(ids)]
            return request

        by_ids = {id(stage.ids[side.name]): side.topic_id(topic) for side in stage.both.sides}
        stage.same("anna", lambda ids: build(ids, by_ids), version)

    same(1, "nobody", 3)
    same(1, "nobody", -1)
    same(1, "", 0)
    stage.settle_two()
    same(1, "anna", 2)
    same(2, "anna", 1)
    same(2, "anna", 3)
    same(2, "anna", -1)
    same(2, "", -1)
    same(2, "nobody", 2)
    same(2, "", 2)
    if version >= 7:
        same(2, "anna", 2, instance="unknown")
    stage.send("bert", stage.join("bert", topics=("other",)), 9)
    stage.until_rebalancing("anna", 2)
    same(3, "anna", 2)
    stage.same("anna", stage.join("anna"), 9)
    same(4, "anna", 3)
    fetch_as(stage, 9, [topic], partitions=1)


def test_static_members_commit_and_are_fenced(stage: Stage) -> None:
    topic = stage.both.topic()
    stage.same("old", stage.join(instance="one"), 9)
    stage.same("old", stage.sync("old", 1, {"old": b"all"}, instance="one"), 5)
    stage.same("old", stage.commit(topic, 1, "old", 1, instance="one"), 9)
    stage.same("new", stage.join(instance="one"), 9)
    stage.same("old", stage.commit(topic, 2, "old", 1, instance="one"), 9)
    stage.same("old", stage.commit(topic, 2, "old", 1), 9)
    stage.same("new", stage.commit(topic, 3, "new", 1, instance="one"), 9)
    stage.same("new", stage.commit(topic, 3, "new", 1), 9)
    fetch_as(stage, 9, [topic], partitions=1)


def test_groups_without_a_name(stage: Stage) -> None:
    topic = stage.both.topic()
    stage.same("anna", stage.commit(topic, 1, group=""), 9)
    asked = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    stage.both.same(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="", topics=asked)]), 9)
    stage.both.same(OffsetDeleteRequest(group_id="", topics=[]), 0)


def delete(group: str, *wanted: tuple[str, int]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
        for topic, index in wanted
    ]
    return OffsetDeleteRequest(group_id=group, topics=topics)


def test_offsets_are_deleted_unless_they_are_in_use(stage: Stage) -> None:
    used, unused = stage.both.topic(), stage.both.topic()
    for group in ("unknown-group", ""):
        stage.both.same(delete(group, (used, 0)), 0)
        stage.both.same(delete(group, ("unknown-topic", 0), (used, 7)), 0)
    stage.settle("anna", topics=(used,))
    stage.same("anna", stage.commit(used, 1, "anna", 1), 9)
    stage.same("anna", stage.commit(unused, 1, "anna", 1), 9)
    stage.both.same(delete(stage.group, (used, 0), (unused, 0), ("unknown-topic", 0)), 0)
    stage.both.same(delete(stage.group, (used, 7), (unused, 7)), 0)
    stage.both.same(delete(stage.group, ("unknown-topic", 0)), 0)
    fetch_as(stage, 9, None)
    stage.same("anna", stage.leave("anna"), 5)
    stage.both.same(delete(stage.group, (used, 0)), 0)
    fetch_as(stage, 9, None)


def test_groups_of_other_protocols_keep_their_offsets_while_they_have_members(stage: Stage) -> None:
    topic = stage.both.topic()
    stage.same("anna", stage.join(protocol_type="connect"), 9)
    stage.same("anna", stage.join("anna", protocol_type="connect"), 9)
    stage.same("anna", stage.sync("anna", 1, {}, protocol_type="connect"), 5)
    stage.same("anna", stage.commit(topic, 1, "anna", 1), 9)
    stage.both.same(delete(stage.group, (topic, 0)), 0)
    stage.same("anna", stage.leave("anna"), 5)
    stage.both.same(delete(stage.group, (topic, 0)), 0)
    fetch_as(stage, 9, None)


def test_offsets_go_with_their_topic(stage: Stage) -> None:
    topic, other = stage.both.topic(), stage.both.topic()
    stage.same("anna", stage.commit(topic, 1), 9)
    stage.same("anna", stage.commit(other, 1), 9)
    stage.both.delete_topic(topic)
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=stage.group, topics=None)])
    stage.both.settled(asked, 9)
    assert [each.name for each in stage.both.answers[-1].groups[0].topics] == [other]
