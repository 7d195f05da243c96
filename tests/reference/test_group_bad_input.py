"""What a hostile member sends to groups whose coordinator assigns: Apache Kafka's errors, and nothing changes by it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.share_acknowledge import AcknowledgementBatch as AcknowledgedBatch
from barnabas.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from barnabas.wire.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from barnabas.wire.uuids import Uuid
from tests.reference.test_consumer_groups import Group
from tests.reference.test_share_groups import ACCEPT, RELEASE, ShareStage, acquired
from tests.reference.test_streams_groups import StreamsStage, owned, stateless

STRANGE = Uuid.parse("AAECAwQFBgcICQoLDA0ODw")
LARGEST = 2**63 - 1


@pytest.fixture
def group(both: Any) -> Group:
    return Group(both)


@pytest.fixture
def shares(both: Any) -> ShareStage:
    return ShareStage(both)


@pytest.fixture
def streams(both: Any) -> StreamsStage:
    return StreamsStage(both)


# Consumer groups


def test_owned_partitions_that_are_forged(group: Group) -> None:
    topic, other = group.both.topic(2), group.both.topic(1)
    epoch = group.join("anna", topic).member_epoch
    many = list(range(5000))
    for forged in ({topic: [0, 1, 1, 0]}, {topic: [-1]}, {topic: [2**31 - 1]}, {other: [0]}, {topic: many}):
        group.beat("anna", epoch, owned=forged)
        group.beat("anna", epoch - 1, owned=forged)
    strange = [TopicPartitions(topic_id=STRANGE, partitions=[0])]
    for at in (epoch, epoch - 1, 0):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group.id, member_id="anna", member_epoch=at, topic_partitions=strange
        )
        group.both.same(request, 1)
    group.join("bert", topic, owned={topic: [0]})
    group.described()


def test_names_that_are_wrong_or_long(group: Group) -> None:
    topic = group.both.topic()
    group.join("anna", "a b", "", ".", "x" * 300)
    group.join("a" * 10_000, topic)
    group.join("bert", topic, topic, topic)
    group.join("carl", *(f"missing-{number}" for number in range(5_000)))
    group.join("dora", topic, instance_id="i" * 10_000)
    group.join("emil", topic, rack_id="r" * 10_000)
    group.join("finn", topic, rebalance_timeout_ms=2**31 - 1)
    group.join("gina", topic, rebalance_timeout_ms=-2)
    group.join("hans", topic, rebalance_timeout_ms=0)
    group.join("ines", topic, server_assignor="u" * 10_000)
    group.described()


@pytest.mark.parametrize(
    "regex",
    ["a" * 10_000, "|".join(["abc"] * 2_500), "a*" * 5_000, "(a|b)?" * 1_600, "[a-z]" * 2_000, "(a+)+" * 1_000 + "$"],
    ids=["letters", "choices", "stars", "groups", "classes", "nested"],
)
def test_regular_expressions_of_10_kb(group: Group, regex: str) -> None:
    epoch = group.join("anna", subscribed_topic_regex=regex).member_epoch
    group.beat("anna", epoch)
    group.beat("anna", -1)


def test_offsets_that_no_log_has(group: Group) -> None:
    topic = group.both.topic(2)
    epoch = group.join("anna", topic).member_epoch

    def commit(partition: int, offset: int, metadata: str = "", at: int = epoch, name: str = "anna") -> None:
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[part, part])]
        request = OffsetCommitRequest(
            group_id=group.id, generation_id_or_member_epoch=at, member_id=name, topics=topics
        )
        group.both.same(request, 9)

    for partition, offset in ((0, -5), (0, LARGEST), (-1, 3), (7, 3), (2**31 - 1, 3)):
        commit(partition, offset)
    commit(0, 3, "m" * 5_000)
    for at in (-1, -3, 0, epoch - 1, epoch + 1):
        commit(0, 3, at=at)
        commit(0, 3, at=at, name="nobody")
        commit(0, 3, at=at, name="")


# Share groups


def fetched(stage: ShareStage, topic: str) -> None:
    """Anna has the first four of six records, each in a batch of its own."""
    stage.configure(share_auto_offset_reset="earliest")
    stage.both.fill(topic, 6)
    stage.settle("anna", topic)
    assert acquired(stage.fetch("anna", topic, 0, max_records=4, batch_size=4)) == [(0, 3, 1)]


def test_acknowledgements_of_what_was_never_acquired(shares: ShareStage) -> None:
    topic = shares.both.topic()
    fetched(shares, topic)
    wrong = [
        [(4, 4, [ACCEPT])],
        [(0, 4, [ACCEPT])],
        [(6, 6, [ACCEPT])],
        [(3, 100_000, [ACCEPT])],
        [(-1, 0, [ACCEPT])],
        [(-5, -3, [ACCEPT])],
        [(0, LARGEST, [ACCEPT])],
        [(LARGEST, LARGEST, [ACCEPT])],
        [(0, 2, [ACCEPT]), (1, 3, [ACCEPT])],
        [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
        [(2, 3, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 1, [ACCEPT]), (0, 1, [RELEASE])],
        [(0, 3, [ACCEPT] * 3)],
        [(0, 3, [ACCEPT] * 5)],
        [(0, 3, [])],
        [(0, 0, [-1])],
        [(0, 0, [5])],
        [(0, 1, [ACCEPT, 127])],
    ]
    for epoch, acks in enumerate(wrong, 1):
        shares.acknowledge("anna", topic, epoch, acks)
    shares.acknowledge("anna", topic, len(wrong) + 1, [(0, 3, [ACCEPT])])
    shares.offsets("start_offset", "lag")


def test_acknowledgements_about_partitions_that_are_not_there(shares: ShareStage) -> None:
    topic = shares.both.topic()
    fetched(shares, topic)

    def acknowledge(epoch: int, name: str = "anna", partitions: tuple[int, ...] = (0,), **fields: Any) -> None:
        def build(side: Any) -> ShareAcknowledgeRequest:
            batch = AcknowledgedBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
            parts = [AcknowledgePartition(partition_index=at, acknowledgement_batches=[batch]) for at in partitions]
            given = {"group_id": shares.id, "topic_id": side.topic_id(topic), **fields}
            asked = [AcknowledgeTopic(topic_id=given.pop("topic_id"), partitions=parts)]
            return ShareAcknowledgeRequest(member_id=name, share_session_epoch=epoch, topics=asked, **given)

        shares.both.same(build, 2, ignoring={"current_leader", "node_endpoints"})

    acknowledge(1, partitions=(1, -1, 2**31 - 1))
    acknowledge(2, topic_id=STRANGE)
    acknowledge(3, group_id=shares.both.new_name("missing"))
    acknowledge(3, group_id="")
    acknowledge(3, name="bert")
    acknowledge(3, name="x" * 10_000)
    acknowledge(2**31 - 1)
    acknowledge(-7)
    acknowledge(3, partitions=(0, 0))


def test_fetches_with_absurd_counts(shares: ShareStage) -> None:
    topic = shares.both.topic()
    fetched(shares, topic)
    epoch = 1
    for absurd in (
        {"max_records": 0},
        {"max_records": -1},
        {"batch_size": 2**31 - 1},
        {"max_records": 2**31 - 1},
        {"max_bytes": 0},
        {"min_bytes": -1},
        {"max_wait_ms": -1},
    ):
        answer = shares.fetch("anna", topic, epoch, **{"max_wait_ms": 10, **absurd})
        epoch += answer.error_code == 0
    shares.fetch("anna", topic, epoch, [(0, 0, [9])], max_wait_ms=10)


def test_fetches_of_what_is_not_there(shares: ShareStage) -> None:
    topic = shares.both.topic()
    fetched(shares, topic)

    def fetch(
        epoch: int, topic_id: Uuid | None, partitions: tuple[int, ...], name: str = "anna", **fields: Any
    ) -> None:
        def build(side: Any) -> ShareFetchRequest:
            batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
            parts = [FetchPartition(partition_index=at, acknowledgement_batches=[batch]) for at in partitions]
            asked = [FetchTopic(topic_id=topic_id or side.topic_id(topic), partitions=parts)]
            given = {"group_id": shares.id, "max_wait_ms": 10, "max_records": 10, "batch_size": 10, **fields}
            return ShareFetchRequest(member_id=name, share_session_epoch=epoch, topics=asked, **given)

        shares.both.same(build, 2, ignoring={"current_leader", "records", "node_endpoints"})

    fetch(1, None, (1, -1, 2**31 - 1))
    fetch(7, None, (0,))
    fetch(2, None, (0,), group_id="")
    fetch(2, None, (0,), group_id=shares.both.new_name("missing"))
    fetch(0, None, (0,), name="not a uuid")
    fetch(2, None, (0, 0))


def test_heartbeats_of_share_members_that_are_wrong(shares: ShareStage) -> None:
    topic = shares.both.topic()
    shares.configure(share_assignment_interval_ms="0")  # how soon a change is assigned is each side's own matter
    epoch = shares.settle("anna", topic)
    for wrong in (epoch + 1, 2**31 - 1, -3, -100):
        shares.beat("anna", wrong)
    shares.beat("anna", epoch, ["a b", "", "x" * 300])
    shares.beat("a" * 10_000, 0, [topic])
    shares.beat("bert", 0, [f"missing-{number}" for number in range(5_000)])
    shares.beat("carl", 0, [topic], rack_id="r" * 10_000)
    shares.beat("anna", 3, group_id="")


# Streams groups


def test_tasks_that_are_forged(streams: StreamsStage) -> None:
    topic = streams.both.topic(2)
    streams.join("anna", stateless(topic))
    for forged in ([-1], [0, 0, 1], [2**31 - 1], list(range(5_000))):
        streams.beat("anna", 2, **owned({"0": forged}))
        streams.beat("anna", 1, **owned({"0": forged}))
    streams.beat("anna", 2, **owned({"": [0]}))
    streams.beat("anna", 2, **owned({"x" * 10_000: [0]}))
    for wrong in (1000, 2**31 - 1, -100):
        streams.beat("anna", wrong)
    streams.describe()
