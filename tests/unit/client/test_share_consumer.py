"""A share consumer whose broker goes away: two scripted brokers, of which one leads the partition at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.errors import Refused
from barnabas.client.share_consumer import ShareConsumer, ShareRecord
from barnabas.wire.messages import share_fetch as fetch
from barnabas.wire.messages import share_group_heartbeat as heartbeat
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from barnabas.wire.uuids import Uuid
from tests.support.reference_batches import crafted_batch
from tests.support.scripted_broker import ScriptedBroker

TOPIC_ID = Uuid(b"\x05" * 16)
METADATA, FIND_COORDINATOR, HEARTBEAT, FETCH, ACKNOWLEDGE = 3, 10, 76, 78, 79
RECORDS = crafted_batch([(None, b"task-0"), (None, b"task-1")])


class Pair:
    """Broker 1 coordinates; broker 2 leads first, then broker 1. Records are given out by whoever leads."""

    def __init__(self, scripted: Callable[..., ScriptedBroker]) -> None:
        self.leader = 2
        script = {
            METADATA: lambda request, version: self._metadata(),
            FIND_COORDINATOR: lambda request, version: self._coordinator(request),
            HEARTBEAT: lambda request, version: self._assigned(),
            FETCH: lambda request, version: self._records(request),
            ACKNOWLEDGE: lambda request, version: ShareAcknowledgeResponse(),
        }
        self.brokers = {1: scripted(script), 2: scripted(script)}
        self.fetches: list[Any] = []

    def _metadata(self) -> MetadataResponse:
        ports = {number: broker.port for number, broker in self.brokers.items()}
        part = MetadataResponsePartition(
            partition_index=0, leader_id=self.leader, replica_nodes=[1, 2], isr_nodes=[1, 2]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=each, host="127.0.0.1", port=port) for each, port in ports.items()],
            controller_id=1,
            topics=[MetadataResponseTopic(name="tasks", topic_id=TOPIC_ID, partitions=[part])],
        )

    def _coordinator(self, request: Any) -> FindCoordinatorResponse:
        found = [
            Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.brokers[1].port)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _assigned(self) -> heartbeat.ShareGroupHeartbeatResponse:
        topics = [heartbeat.TopicPartitions(topic_id=TOPIC_ID, partitions=[0])]
        return heartbeat.ShareGroupHeartbeatResponse(
            member_epoch=1, heartbeat_interval_ms=5000, assignment=heartbeat.Assignment(topic_partitions=topics)
        )

    def _records(self, request: Any) -> fetch.ShareFetchResponse:
        self.fetches.append(request)
        is_first = request.share_session_epoch == 0
        acquired = [fetch.AcquiredRecords(first_offset=0, last_offset=1, delivery_count=1)] if is_first else []
        part = fetch.PartitionData(records=RECORDS if is_first else b"", acquired_records=acquired)
        topic = fetch.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])
        return fetch.ShareFetchResponse(acquisition_lock_timeout_ms=30_000, responses=[topic])

    def lose_the_leader(self) -> None:
        self.leader = 1
        self.brokers[2].close()


@pytest.fixture
def pair(scripted: Callable[..., ScriptedBroker]) -> Pair:
    return Pair(scripted)


@pytest.fixture
def consumer(pair: Pair) -> Iterator[ShareConsumer]:
    # A dead broker is not asked for as long as this.
    with ShareConsumer(pair.brokers[1].settings(default_api_timeout_ms="60000"), "workers", ["tasks"]) as made:
        yield made


def take(consumer: ShareConsumer) -> list[ShareRecord]:
    limit = time.monotonic() + 10
    while not (found := consumer.poll(200)):
        assert time.monotonic() < limit, "no records came within 10 s"
    return found


def test_another_leader_is_asked_at_once_and_what_was_said_to_the_lost_one_is_told(
    pair: Pair, consumer: ShareConsumer
) -> None:
    before, still_held = take(consumer)
    consumer.ack(before)
    pair.lose_the_leader()
    again = take(consumer)
    assert [record.value for record in again] == [b"task-0", b"task-1"]
    assert pair.fetches[-1].share_session_epoch == 0
    # One was said to the broker that is gone; the other belongs to its session, and is not said to the new one.
    with pytest.raises(Refused, match="1 records are not ours any more"):
        consumer.commit()
    for record in again:
        consumer.ack(record)
    consumer.commit()
    with pytest.raises(Refused):
        consumer.ack(still_held)


def test_a_commit_to_a_broker_that_is_gone_is_refused(pair: Pair, consumer: ShareConsumer) -> None:
    for record in take(consumer):
        consumer.ack(record)
    pair.lose_the_leader()
    with pytest.raises(Refused, match="2 records are not ours any more"):
        consumer.commit()
    assert len(take(consumer)) == 2
    consumer.commit()
