"""What a leader answers to followers: throttled ones, early ones, and sessions that grow."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.broker.fetch_sessions import SHARE, FetchSessions
from barnabas.node.broker.partition import Partition
from barnabas.node.broker.replication.throttles import ReplicaThrottle
from barnabas.node.handlers.k01_fetch import handle
from barnabas.node.requests import ListenerKind, RequestContext, Session
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from barnabas.wire.records.metadata import PartitionRecord, TopicRecord
from barnabas.wire.uuids import ZERO_UUID, Uuid
from tests.support.reference_batches import crafted_batch

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(b"topic-id-0000001")
IN_SYNC, BEHIND = 2, 3
WAIT_MS = 150
VERSION = 17
RECORD = bytes(crafted_batch())[-8:]  # the end of each batch


class Leader:
    """Broker 1 leads a partition with records; broker 2 is in sync, 3 is not. Its rate is a byte a second."""

    def __init__(self, tmp_path: Path, throttled: tuple[str, ...]) -> None:
        self.image = MetadataImage()
        record = PartitionRecord(
            topic_id=TOPIC_ID,
            partition_id=0,
            replicas=[1, IN_SYNC, BEHIND],
            isr=[1, IN_SYNC],
            leader=1,
            leader_epoch=0,
            directories=[ZERO_UUID] * 3,
        )
        self.image.replay_all([TopicRecord(name="orders", topic_id=TOPIC_ID), record])
        config = LogConfig(leader_replication_throttled_replicas=throttled)
        log = create_log(tmp_path / "orders-0", "orders", 0, config, now_ms=NOW_MS)
        self.partition = Partition(1, self.image.topics["orders"].partitions[0], log, 0)
        for _ in range(3):
            self.partition.append(bytearray(crafted_batch()), 1, NOW_MS)
        self.partitions = SimpleNamespace(get=lambda name, index: self.partition)
        self.fetch_sessions = FetchSessions(10, self.clock)
        self.config = SimpleNamespace(fetch_max_bytes=1 << 20, replica_selector_class=None)
        self.seconds = 0.0
        throttle = ReplicaThrottle(
            11, 1, lambda: self.seconds, 1, lambda topic: topic.leader_replication_throttled_replicas
        )
        throttle.limit(1)
        self.throttles = SimpleNamespace(leader=throttle)

    def clock(self) -> int:
        return NOW_MS

    def leads_too(self, topic: str, topic_id: Uuid, tmp_path: Path) -> Partition:
        """From now on, a partition with as many records."""
        record = PartitionRecord(
            topic_id=topic_id,
            partition_id=0,
            replicas=[1, IN_SYNC],
            isr=[1, IN_SYNC],
            leader=1,
            leader_epoch=0,
            directories=[ZERO_UUID] * 2,
        )
        self.image.replay_all([TopicRecord(name=topic, topic_id=topic_id), record])
        log = create_log(tmp_path / f"{topic}-0", topic, 0, LogConfig(), now_ms=NOW_MS)
        partition = Partition(1, self.image.topics[topic].partitions[0], log, 0)
        for _ in range(3):
            partition.append(bytearray(crafted_batch()), 1, NOW_MS)
        known = {"orders": self.partition, topic: partition}
        self.partitions = SimpleNamespace(get=lambda name, index: known[name])
        return partition

    async def batches_for(self, replica_id: int, offset: int = 0) -> int:
        """How many batches the answer has."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100, current_leader_epoch=0)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id),
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        return (await self._answer(request)).count(RECORD)

    async def continue_session(self, session_id: int, epoch: int, indexes: range) -> FetchResponse:
        partitions = [FetchPartition(partition=index, partition_max_bytes=100) for index in indexes]
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)],
        )
        response: FetchResponse = FetchResponse.decode(await self._answer(request), VERSION)
        return response

    async def _answer(self, request: FetchRequest) -> bytes:
        session = Session(
            listener="PLAINTEXT",
            kind=ListenerKind.BROKER,
            security_protocol=0,
            client_host="127.0.0.1",
            client_port=1,
            routes={},
        )
        node: Any = self
        answer: Any = await handle(RequestContext(session, 1, VERSION, 1, "test"), request, node)
        return b"".join(map(bytes, answer.parts))


@pytest.mark.parametrize("throttled", [("0:1",), ("*",)])
def test_a_throttled_follower_that_is_not_in_sync_waits_while_the_rate_is_exceeded(
    tmp_path: Path, throttled: tuple[str, ...]
) -> None:
    async def story() -> None:
        leader = Leader(tmp_path, throttled)
        assert await leader.batches_for(BEHIND), "nothing was handed out yet"
        began = time.monotonic()
        assert not await leader.batches_for(BEHIND)
        assert time.monotonic() - began >= WAIT_MS / 1000, "an empty answer is not given at once"
        leader.seconds = 3600.0
        assert await leader.batches_for(BEHIND)

    asyncio.run(story())


def test_an_append_does_not_wake_a_follower_that_is_held_back(tmp_path: Path) -> None:
    async def story() -> None:
        leader = Leader(tmp_path, ("*",))
        assert await leader.batches_for(BEHIND)
        waiting = asyncio.ensure_future(leader.batches_for(BEHIND))
        await asyncio.sleep(0.02)
        leader.partition.append(bytearray(crafted_batch()), 1, NOW_MS)
        await asyncio.sleep(0.02)
        assert not waiting.done()
        assert not await waiting

    asyncio.run(story())


def test_a_follower_in_sync_is_not_held_back_and_counts(tmp_path: Path) -> None:
    async def story() -> None:
        leader = Leader(tmp_path, ("*",))
        assert await leader.batches_for(IN_SYNC)
        assert await leader.batches_for(IN_SYNC, 1)
        assert not await leader.batches_for(BEHIND), "what the other was given has exceeded the rate"

    asyncio.run(story())


@pytest.mark.parametrize("throttled", [(), ("0:2", "1:1")])
def test_who_is_not_listed_is_not_throttled(tmp_path: Path, throttled: tuple[str, ...]) -> None:
    async def story() -> None:
        leader = Leader(tmp_path, throttled)
        for _ in range(3):
            assert await leader.batches_for(BEHIND)

    asyncio.run(story())


def test_a_session_that_grows_beyond_its_share_ends_and_one_that_does_not_counts_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        leader = Leader(tmp_path, ())
        leader.fetch_sessions = FetchSessions(10, leader.clock, max_partitions=2 * SHARE)
        session_id = (await leader.continue_session(0, 0, range(1))).session_id
        grown = await leader.continue_session(session_id, 1, range(2))
        assert (grown.error_code, len(leader.fetch_sessions)) == (ErrorCode.NONE, 1)
        with monkeypatch.context() as uncounted:
            uncounted.setattr(FetchSessions, "cached_partitions", None)
            assert (await leader.continue_session(session_id, 2, range(2))).error_code == ErrorCode.NONE
        refused = await leader.continue_session(session_id, 3, range(3))
        assert (refused.error_code, len(leader.fetch_sessions)) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)

    asyncio.run(story())


def test_what_a_follower_has_counts_also_where_the_leader_hears_of_the_partition_while_the_fetch_waits(
    tmp_path: Path,
) -> None:
    """The answer is without error, so the follower asks for nothing new: it was out of sync until the next append."""
    leader = Leader(tmp_path, ())

    async def run() -> tuple[FetchResponse, Partition]:
        late = Uuid(b"topic-id-0000002")
        asked = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=100, current_leader_epoch=0)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=IN_SYNC),
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=topic_id, partitions=[asked]) for topic_id in (TOPIC_ID, late)],
        )
        fetching = asyncio.create_task(leader._answer(request))
        while not leader.partition.followers:
            assert not fetching.done()
            await asyncio.sleep(0)
        partition = leader.leads_too("late", late, tmp_path)
        assert partition.high_watermark == 0
        leader.partition.append(bytearray(crafted_batch()), 1, NOW_MS)
        return FetchResponse.decode(await fetching, VERSION), partition

    response, partition = asyncio.run(asyncio.wait_for(run(), 30))
    assert [each.error_code for topic in response.responses for each in topic.partitions] == [0, 0]
    assert partition.high_watermark == 3
