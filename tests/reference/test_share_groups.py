"""Share groups: the same members, fetches and acknowledgements, the same answers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.share_acknowledge import AcknowledgementBatch as AcknowledgedBatch
from barnabas.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from barnabas.wire.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from barnabas.wire.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.reference_batches import crafted_batch

Acks = list[tuple[int, int, list[int]]]
GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4


class ShareStage:
    def __init__(self, both: Any) -> None:
        self.both = both
        self.id = both.new_name("sharing")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.id])
        for side in both.sides:
            side.wait_until(find, 4, lambda answer: answer.coordinators[0].error_code == 0)
            ready = HeartbeatRequest(group_id=self.id, generation_id=0, member_id="nobody")
            side.wait_until(ready, 4, lambda answer: answer.error_code == 25)

    def configure(self, **configs: str) -> None:
        altered = [
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=32, resource_name=self.id, configs=altered)
        self.both.same(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    def beat(self, name: str, epoch: int, topics: list[str] | None = None, **fields: Any) -> Any:
        given = {"group_id": self.id, "subscribed_topic_names": topics, **fields}
        return self.both.same(ShareGroupHeartbeatRequest(member_id=name, member_epoch=epoch, **given), 1)

    def settle(self, name: str, topic: str) -> int:
        """The member has all partitions of the topic; how many heartbeats that takes is each side's own matter."""
        epochs = []
        for side in self.both.sides:
            joined = side.ask(
                ShareGroupHeartbeatRequest(
                    group_id=self.id, member_id=name, member_epoch=0, subscribed_topic_names=[topic]
                ),
                1,
            )
            assert joined.error_code == 0
            state = {"epoch": joined.member_epoch, "assignment": joined.assignment.topic_partitions}

            def is_assigned(side: Any = side, state: dict[str, Any] = state) -> bool:
                beat = ShareGroupHeartbeatRequest(group_id=self.id, member_id=name, member_epoch=state["epoch"])
                answer = side.ask(beat, 1)
                assert answer.error_code == 0
                state["epoch"] = answer.member_epoch
                if answer.assignment is not None:
                    state["assignment"] = answer.assignment.topic_partitions
                return bool(state["assignment"])

            from tests.support.waiting import wait_until

            wait_until(is_assigned)
            epochs.append(state["epoch"])
        return epochs[0]

    def fetch(self, name: str, topic: str, epoch: int, acks: Acks | None = None, **fields: Any) -> Any:
        def build(side: Any) -> ShareFetchRequest:
            batches = [
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in acks or []
            ]
            part = FetchPartition(partition_index=0, acknowledgement_batches=batches)
            asked = [FetchTopic(topic_id=side.topic_id(topic), partitions=[part])]
            limits = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 100, "batch_size": 100, **fields}
            return ShareFetchRequest(
                group_id=self.id, member_id=name, share_session_epoch=epoch, topics=asked, **limits
            )

        return self.both.same(build, 2, ignoring={"current_leader", "records", "node_endpoints"})

    def acknowledge(self, name: str, topic: str, epoch: int, acks: Acks, *, renews: bool = False) -> Any:
        def build(side: Any) -> ShareAcknowledgeRequest:
            batches = [
                AcknowledgedBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in acks
            ]
            part = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
            asked = [AcknowledgeTopic(topic_id=side.topic_id(topic), partitions=[part])]
            return ShareAcknowledgeRequest(
                group_id=self.id, member_id=name, share_session_epoch=epoch, is_renew_ack=renews, topics=asked
            )

        return self.both.same(build, 2, ignoring={"current_leader", "node_endpoints"})

    def offsets(self, *ignoring: str) -> Any:
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=self.id, topics=None)
        return self.both.same(DescribeShareGroupOffsetsRequest(groups=[asked]), 1, ignoring={"leader_epoch", *ignoring})


@pytest.fixture
def stage(both: Any) -> ShareStage:
    return ShareStage(both)


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def test_joining_staying_and_leaving(stage: ShareStage) -> None:
    topic = stage.both.topic(2)
    epoch = stage.settle("anna", topic)
    stage.both.same(
        ShareGroupDescribeRequest(group_ids=[stage.id]),
        1,
        ignoring={"group_epoch", "assignment_epoch", "member_epoch"},
    )
    stage.beat("anna", epoch + 7)
    stage.beat("nobody", epoch)
    stage.beat("", 0, [topic])
    stage.beat("anna", 0, [])
    stage.beat("anna", 0)
    stage.beat("anna", -2)
    stage.beat("anna", epoch, rack_id="")
    stage.beat("nobody", -1)
    stage.beat("anna", 5, group_id=stage.both.new_name("missing"))
    stage.beat("anna", -1)
    stage.both.same(ShareGroupDescribeRequest(group_ids=[stage.id]), 1, ignoring={"group_epoch", "assignment_epoch"})
    stage.both.same(ShareGroupDescribeRequest(group_ids=[stage.both.new_name("missing")]), 1)


def test_records_are_taken_acknowledged_and_delivered_again(stage: ShareStage) -> None:
    topic = stage.both.topic()
    stage.configure(share_auto_offset_reset="earliest", share_delivery_count_limit="2")
    stage.both.fill(topic, 6)
    stage.settle("anna", topic)
    assert acquired(stage.fetch("anna", topic, 0)) == [(0, 5, 1)]
    assert acquired(stage.fetch("bert", topic, 0, max_wait_ms=10)) == []
    stage.acknowledge("bert", topic, 1, [(0, 0, [ACCEPT])])
    stage.acknowledge("anna", topic, 1, [(0, 1, [ACCEPT]), (3, 3, [REJECT])])
    stage.acknowledge("anna", topic, 2, [(0, 0, [ACCEPT])])
    stage.acknowledge("anna", topic, 3, [(3, 3, [ACCEPT])])
    stage.acknowledge("anna", topic, 4, [(4, 5, [RELEASE, RENEW])])
    stage.acknowledge("anna", topic, 5, [(4, 5, [RELEASE, RENEW])], renews=True)
    again = stage.fetch("bert", topic, 2)
    assert acquired(again) == [(4, 4, 2)]
    stage.fetch("bert", topic, 3, [(4, 4, [RELEASE])], max_wait_ms=10)
    stage.acknowledge("anna", topic, 6, [(2, 2, [9])])
    stage.acknowledge("anna", topic, 7, [(2, 1, [ACCEPT])])
    stage.acknowledge("anna", topic, 8, [(2, 2, [ACCEPT, ACCEPT])])
    stage.acknowledge("anna", topic, 9, [(100, 101, [ACCEPT])])
    stage.offsets()
    stage.acknowledge("anna", topic, 10, [(2, 2, [ACCEPT]), (5, 5, [ACCEPT])])
    # Kafka writes the start as it was before the acknowledgement; what is left to do is the same.
    stage.offsets("start_offset")


@pytest.mark.parametrize("batch_size", [1, 3, 4, 5, 100])
def test_entries_have_as_many_records_as_the_batch_size_says(stage: ShareStage, batch_size: int) -> None:
    topic = stage.both.topic()
    stage.configure(share_auto_offset_reset="earliest")
    stage.both.fill(topic, 3)
    stage.both.produce(topic, crafted_batch([(None, b"value")] * 4))
    stage.both.fill(topic, 5)
    stage.settle("anna", topic)
    entries = acquired(stage.fetch("anna", topic, 0, max_records=10, batch_size=batch_size))
    assert len(entries) == {1: 7, 3: 3, 4: 2, 5: 2, 100: 1}[batch_size]
    stage.acknowledge("anna", topic, 1, [(0, 9, [RELEASE])])
    assert acquired(stage.fetch("anna", topic, 2, max_records=10, batch_size=batch_size))


@pytest.mark.parametrize("max_records", [1, 4, 5, 6])
def test_no_more_records_are_taken_than_asked_for_if_the_mode_says_so(stage: ShareStage, max_records: int) -> None:
    topic = stage.both.topic()
    stage.configure(share_auto_offset_reset="earliest")
    stage.both.produce(topic, crafted_batch([(None, b"value")] * 4))
    stage.both.produce(topic, crafted_batch([(None, b"value")] * 4))
    stage.settle("anna", topic)
    first = acquired(stage.fetch("anna", topic, 0, max_records=max_records, share_acquire_mode=1))
    assert sum(last - begin + 1 for begin, last, _ in first) == max_records
    stage.fetch("bert", topic, 0, max_records=max_records, share_acquire_mode=1)
    stage.acknowledge("anna", topic, 1, [(0, 0, [RELEASE])])
    assert acquired(stage.fetch("bert", topic, 1, max_records=1, share_acquire_mode=1)) == [(0, 0, 2)]


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_markers_are_given_out_and_aborted_records_if_they_are_asked_for(
    stage: ShareStage, isolation_level: str
) -> None:
    topic = stage.both.topic()
    stage.configure(share_auto_offset_reset="earliest", share_isolation_level=isolation_level)
    for side in stage.both.sides:
        write_transactions(side.server.bootstrap_servers, topic, stage.both.new_name("writer"))
    stage.settle("anna", topic)
    taken = acquired(stage.fetch("anna", topic, 0))
    aborted = {5, 6, 7, 12} if isolation_level == "read_committed" else set()
    assert {offset for first, last, _ in taken for offset in range(first, last + 1)} == set(range(15)) - aborted
    stage.acknowledge("anna", topic, 1, [(4, 4, [GAP]), (8, 8, [GAP]), (13, 13, [RELEASE])])
    stage.acknowledge("anna", topic, 2, [(0, 3, [ACCEPT]), (9, 9, [RELEASE])])
    stage.fetch("bert", topic, 0)
    if aborted:
        stage.acknowledge("anna", topic, 3, [(5, 7, [ACCEPT])])
    stage.offsets("start_offset")


def write_transactions(bootstrap_servers: str, topic: str, transactional_id: str) -> None:
    """Batches of records and their markers: 0-3 and 4, 5-7 and 8 aborted, 9-10 and 11, 12 and 13 aborted; 14 alone."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 1_000}
    )
    producer.init_transactions(30)
    for count, is_kept in ((4, True), (3, False), (2, True), (1, False)):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, b"value", partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if is_kept else producer.abort_transaction(30)
    plain = Producer({"bootstrap.servers": bootstrap_servers})
    plain.produce(topic, b"value", partition=0)
    assert plain.flush(30) == 0


@pytest.mark.parametrize("strategy", ["by_duration:PT1H", "by_duration:P1DT2H", "latest"])
def test_a_group_begins_so_long_before_now(stage: ShareStage, strategy: str) -> None:
    topic = stage.both.topic()
    stage.configure(share_auto_offset_reset=strategy)
    now_ms = int(time.time() * 1000)
    for minutes in (60 * 48, 120, 30, 2):
        stage.both.produce(topic, crafted_batch([(None, b"value")], base_timestamp=now_ms - minutes * 60_000))
    stage.settle("anna", topic)
    stage.fetch("anna", topic, 0, max_wait_ms=10)


@pytest.mark.parametrize("wrong", ["by_duration:", "by_duration:PT-1H", "by_duration:1h", "Earliest", "never"])
def test_beginnings_that_are_none(stage: ShareStage, wrong: str) -> None:
    stage.configure(share_auto_offset_reset=wrong)


def test_sessions_have_epochs(stage: ShareStage) -> None:
    topic = stage.both.topic()
    stage.configure(share_auto_offset_reset="earliest")
    stage.both.fill(topic, 2)
    stage.settle("anna", topic)
    stage.fetch("anna", topic, 1)
    stage.fetch("anna", topic, -1)
    stage.acknowledge("anna", topic, 0, [(0, 0, [ACCEPT])])
    stage.acknowledge("anna", topic, 3, [(0, 0, [ACCEPT])])
    stage.fetch("anna", topic, 0, [(0, 0, [ACCEPT])])
    assert acquired(stage.fetch("anna", topic, 0)) == [(0, 1, 1)]
    stage.fetch("anna", topic, 3)
    stage.fetch("", topic, 0)
    stage.fetch("anna", topic, -1)
    stage.fetch("anna", topic, 1)
    assert acquired(stage.fetch("bert", topic, 0)) == [(0, 1, 2)]


def test_offsets_of_a_group_are_altered_and_deleted(stage: ShareStage) -> None:
    topic = stage.both.topic()
    stage.both.fill(topic, 4)
    stage.settle("anna", topic)
    altered = AlterShareGroupOffsetsRequest(
        group_id=stage.id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=2),
                    AlterShareGroupOffsetsRequestPartition(partition_index=7, start_offset=2),
                ],
            ),
            AlterShareGroupOffsetsRequestTopic(
                topic_name="missing", partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0)]
            ),
        ],
    )
    deleted = DeleteShareGroupOffsetsRequest(
        group_id=stage.id,
        topics=[
            DeleteShareGroupOffsetsRequestTopic(topic_name=topic),
            DeleteShareGroupOffsetsRequestTopic(topic_name="missing"),
        ],
    )
    stage.both.same(altered, 0)
    stage.both.same(deleted, 0)
    stage.beat("anna", -1)
    stage.both.same(altered, 0)
    stage.offsets()
    stage.settle("anna", topic)
    assert acquired(stage.fetch("anna", topic, 0)) == [(2, 3, 1)]
    stage.fetch("anna", topic, -1, [(2, 2, [ACCEPT])])
    stage.beat("anna", -1)
    stage.offsets()
    stage.both.same(deleted, 0)
    stage.both.same(deleted, 0)
    stage.both.same(DeleteGroupsRequest(groups_names=[stage.id]), 2)
    stage.both.same(ShareGroupDescribeRequest(group_ids=[stage.id]), 1)
