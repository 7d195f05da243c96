"""A follower that copies: it leaves out throttled partitions that lag while its rate is exceeded, and bad answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.metadata.state import PartitionState
from barnabas.node.broker.partition import Partition
from barnabas.node.broker.replication.fetcher import Fetcher, FetchLimits
from barnabas.node.broker.replication.throttles import ReplicaThrottle
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from barnabas.wire.uuids import Uuid
from tests.support.reference_batches import crafted_batch
from tests.support.waiting import until

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(b"topic-id-0000001")
FOLLOWER, LEADER = 2, 1
IS_HELD_BACK_S = 0.1


class Leader:
    """Has records without end, one batch an answer. Without a `high_watermark` it is what it has answered."""

    address = ("leader", 9092)

    def __init__(self, high_watermark: int | None) -> None:
        self.high_watermark = high_watermark
        self.asked: list[int] = []

    async def send(self, request: FetchRequest, version: int, timeout_ms: float) -> FetchResponse:
        await asyncio.sleep(0)
        (partition,) = (each for topic in request.topics for each in topic.partitions)
        self.asked.append(partition.fetch_offset)
        records = bytearray(crafted_batch())
        records[:8] = partition.fetch_offset.to_bytes(8, "big")
        data = PartitionData(
            partition_index=0,
            high_watermark=partition.fetch_offset + 1 if self.high_watermark is None else self.high_watermark,
            log_start_offset=0,
            records=records,
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    async def close(self) -> None:
        """There is nothing to close."""


class BadLeader(Leader):
    """Answers once what cannot be, and then as it should."""

    def __init__(self, spoil: Callable[[PartitionData], None], topic_id: Uuid = TOPIC_ID) -> None:
        super().__init__(None)
        self._spoil = spoil
        self._topic_id = topic_id

    async def send(self, request: FetchRequest, version: int, timeout_ms: float) -> FetchResponse:
        answer = await super().send(request, version, timeout_ms)
        if len(self.asked) == 1:
            answer.responses[0].topic_id = self._topic_id
            self._spoil(answer.responses[0].partitions[0])
        return answer


class Follower:
    def __init__(self, tmp_path: Path, throttled: tuple[str, ...], leader: Leader) -> None:
        state = PartitionState(
            topic_id=TOPIC_ID,
            topic="orders",
            index=0,
            replicas=[LEADER, FOLLOWER],
            isr=[LEADER],
            leader=LEADER,
            leader_epoch=0,
            partition_epoch=0,
        )
        config = LogConfig(follower_replication_throttled_replicas=throttled)
        log = create_log(tmp_path / "orders-0", "orders", 0, config, now_ms=NOW_MS)
        self.partition = Partition(FOLLOWER, state, log, 0)
        self.leader = leader
        self.seconds = 0.0
        self.throttle = ReplicaThrottle(
            11, 1, lambda: self.seconds, FOLLOWER, lambda config: config.follower_replication_throttled_replicas
        )
        self.throttle.limit(1)
        peer: Any = leader
        log_dirs: Any = None
        self.fetcher = Fetcher(
            FOLLOWER,
            LEADER,
            peer,
            log_dirs,
            FetchLimits(),
            self.throttle,
            broker_epoch=lambda: 5,
            fetch_version=lambda: 17,
            list_offsets_version=lambda: 11,
            clock=lambda: NOW_MS,
        )

    async def copies(self, count: int) -> None:
        await until(lambda: len(self.leader.asked) >= count, f"{count} fetches")


def test_a_throttled_partition_that_lags_waits_until_the_rate_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        follower = Follower(tmp_path, ("0:2",), Leader(high_watermark=1_000_000))
        follower.fetcher.add(follower.partition)
        await follower.copies(1)
        await asyncio.sleep(IS_HELD_BACK_S)
        assert follower.leader.asked == [0]
        follower.seconds = 3600.0
        await follower.copies(2)
        await asyncio.sleep(IS_HELD_BACK_S)
        assert follower.leader.asked == [0, 1]
        follower.throttle.limit(1 << 40)
        await follower.copies(10)
        await follower.fetcher.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("throttled", "high_watermark"), [(("*",), None), ((), 1_000_000), (("0:1", "1:2"), 1_000_000)]
)
def test_who_has_everything_or_is_not_listed_is_not_held_back(
    tmp_path: Path, throttled: tuple[str, ...], high_watermark: int | None
) -> None:
    async def story() -> None:
        follower = Follower(tmp_path, throttled, Leader(high_watermark))
        follower.fetcher.add(follower.partition)
        await follower.copies(10)
        await follower.fetcher.stop()

    asyncio.run(story())


def garble(data: PartitionData) -> None:
    assert isinstance(data.records, bytearray)
    data.records[-1] ^= 1


def cut(data: PartitionData) -> None:
    assert data.records is not None
    data.records = data.records[: len(data.records) // 2]


def claim_newer_epoch(data: PartitionData) -> None:
    """The epoch of a batch is not in its checksum."""
    assert isinstance(data.records, bytearray)
    data.records[12:16] = (7).to_bytes(4, "big")


def go_back(data: PartitionData) -> None:
    """An unknown error, and a high watermark beyond everything."""
    data.error_code, data.high_watermark = 999, 1 << 40


def do_nothing(data: PartitionData) -> None:
    """The topic is wrong, not the partition."""


@pytest.mark.parametrize(
    ("spoil", "topic_id"),
    [
        (garble, TOPIC_ID),
        (cut, TOPIC_ID),
        (claim_newer_epoch, TOPIC_ID),
        (go_back, TOPIC_ID),
        (do_nothing, Uuid(b"topic-id-0000002")),
    ],
)
def test_of_an_answer_that_cannot_be_nothing_is_kept_and_the_leader_is_asked_again(
    tmp_path: Path, spoil: Callable[[PartitionData], None], topic_id: Uuid
) -> None:
    async def story() -> None:
        follower = Follower(tmp_path, (), BadLeader(spoil, topic_id))
        follower.fetcher.add(follower.partition)
        await follower.copies(4)
        await follower.fetcher.stop()
        assert follower.leader.asked[:4] == [0, 0, 1, 2]
        assert 2 <= follower.partition.high_watermark <= follower.partition.log.log_end_offset
        assert follower.partition.log.epochs.latest <= 0

    asyncio.run(story())
