"""A leader and a follower of one partition, each on a log of its own: what is copied, what is cut, who may do what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.metadata.state import PartitionState
from barnabas.node.broker.fetch_sessions import PartitionFetch
from barnabas.node.broker.partition import Partition, PartitionRead
from barnabas.node.handlers.k01_fetch import _Fetch
from barnabas.node.storage.directory.log_dir import NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.turns import Turn
from barnabas.wire.batch import iterate_batches
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch import FetchPartition
from barnabas.wire.uuids import Uuid
from tests.support.reference_batches import crafted_batch

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(b"topic-id-0000001")
ONE = crafted_batch([(b"k", b"v")])


def state_of(leader: int, leader_epoch: int, isr: list[int] | None = None) -> PartitionState:
    return PartitionState(
        topic_id=TOPIC_ID,
        topic="orders",
        index=0,
        replicas=[1, 2],
        isr=isr or [1, 2],
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch,
    )


class Replica:
    """The partition on one of two nodes."""

    def __init__(self, root: Path, node_id: int) -> None:
        self.node_id = node_id
        self.log_dirs = LogDirs([root / f"node-{node_id}"])
        self.log_dirs.identify("cluster", node_id)
        self.partition: Partition

    async def open(self, leader: int) -> None:
        self.log_dirs.begin()
        await self.log_dirs.load(lambda topic: LogConfig(), now_ms=NOW_MS)
        [log] = await self.log_dirs.create_partitions([NewPartition("orders", 0, TOPIC_ID, LogConfig())], now_ms=NOW_MS)
        self.partition = Partition(self.node_id, state_of(leader, 0), log, 0)

    def produce(self, count: int = 1) -> None:
        for _ in range(count):
            self.partition.append(bytearray(ONE), 1, NOW_MS)

    def lies_at(self) -> list[tuple[int, int]]:
        """Offset and epoch of each batch."""
        log = self.partition.log
        data = bytes(log.read(log.log_start_offset, 1 << 20))
        return [(header.base_offset, header.leader_epoch) for _, header in iterate_batches(data)]

    async def follow(self, leader: Replica) -> None:
        """Asks the leader as long as the logs differ: what a fetcher does."""
        for _ in range(10):
            epoch = self.partition.leader_epoch
            offset, fetched_epoch = self.partition.fetch_position
            found = fetch_as_replica(leader.partition, offset, epoch, fetched_epoch)
            assert found.error_code == 0
            if found.diverging_epoch is not None:
                await self.partition.truncate_as_follower(epoch, found.diverging_epoch, self.log_dirs, NOW_MS)
                continue
            leader.partition.fetched_by(self.node_id, offset, -1, 0)
            high_watermark = leader.partition.high_watermark
            self.partition.append_as_follower(bytes(found.records), epoch, high_watermark, NOW_MS)  # type: ignore[arg-type]
            if not found.records:
                return
        raise AssertionError("the follower never catches up")


def fetch_as_replica(leader: Partition, offset: int, epoch: int, fetched_epoch: int) -> PartitionRead:
    """To the end of the log, as replicas read: the high watermark is for clients."""
    asked = FetchPartition(
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=epoch,
        last_fetched_epoch=fetched_epoch,
    )
    return leader.read(PartitionFetch("orders", asked, from_replica=True), 1 << 20, True, False)


def both(root: Path, story: Callable[[Replica, Replica], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        replicas = [Replica(root, 1), Replica(root, 2)]
        for each in replicas:
            await each.open(leader=1)
        try:
            await story(*replicas)
        finally:
            for each in replicas:
                await each.log_dirs.close(clean=False)

    asyncio.run(asyncio.wait_for(run(), 20))


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code


def test_a_follower_keeps_the_leaders_offsets_and_epochs_and_learns_what_is_committed(tmp_path: Path) -> None:
    async def story(one: Replica, two: Replica) -> None:
        one.produce(2)
        assert one.partition.high_watermark == 0, "the other in-sync replica has nothing yet"
        await two.follow(one)
        assert two.lies_at() == one.lies_at() == [(0, 0), (1, 0)]
        assert one.partition.high_watermark == two.partition.high_watermark == 2
        one.partition.apply(state_of(1, 3))
        two.partition.apply(state_of(1, 3))
        one.produce()
        await two.follow(one)
        assert two.lies_at() == [(0, 0), (1, 0), (2, 3)]

    both(tmp_path, story)


def test_a_follower_is_not_written_to_by_clients_nor_a_leader_by_another_leader(tmp_path: Path) -> None:
    async def story(one: Replica, two: Replica) -> None:
        assert refusal(lambda: two.produce()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refusal(lambda: one.partition.append_as_follower(ONE, 0, 0, NOW_MS)) is ErrorCode.FENCED_LEADER_EPOCH

    both(tmp_path, story)


def test_the_answer_of_a_former_leader_is_not_appended(tmp_path: Path) -> None:
    async def story(one: Replica, two: Replica) -> None:
        one.produce()
        late = bytes(one.partition.log.read(0, 1 << 20))
        two.partition.apply(state_of(1, 1))
        assert refusal(lambda: two.partition.append_as_follower(late, 0, 0, NOW_MS)) is ErrorCode.FENCED_LEADER_EPOCH
        ahead = crafted_batch([(b"k", b"v")], leader_epoch=7)
        assert refusal(lambda: two.partition.append_as_follower(ahead, 1, 0, NOW_MS)) is ErrorCode.CORRUPT_MESSAGE
        assert two.lies_at() == []

    both(tmp_path, story)


def test_who_led_before_cuts_what_nobody_else_has_and_takes_the_new_leaders_records(tmp_path: Path) -> None:
    async def story(one: Replica, two: Replica) -> None:
        one.produce(2)
        await two.follow(one)
        one.produce(3)  # never fetched
        for each in (one, two):
            each.partition.apply(state_of(leader=2, leader_epoch=1))
        two.produce(1)
        await one.follow(two)
        assert one.lies_at() == two.lies_at() == [(0, 0), (1, 0), (2, 1)]
        assert one.partition.high_watermark == two.partition.high_watermark == 3

    both(tmp_path, story)


def test_a_follower_of_several_lost_epochs_cuts_them_one_after_the_other(tmp_path: Path) -> None:
    async def story(one: Replica, two: Replica) -> None:
        one.produce(1)
        await two.follow(one)
        for epoch in (1, 2):  # one alone believes in these
            one.partition.apply(state_of(1, epoch))
            one.produce(2)
        two.partition.apply(state_of(2, 3))
        two.produce(1)
        one.partition.apply(state_of(2, 3))
        await one.follow(two)
        assert one.lies_at() == two.lies_at() == [(0, 0), (1, 3)]

    both(tmp_path, story)


def test_the_high_watermark_survives_the_change_of_roles(tmp_path: Path) -> None:
    async def story(one: Replica, two: Replica) -> None:
        one.produce(2)
        await two.follow(one)
        one.produce(1)
        for each in (one, two):
            each.partition.apply(state_of(2, 1))
            assert each.partition.high_watermark == 2
        two.partition.apply(state_of(2, 2, isr=[2]))
        assert two.partition.high_watermark == 2
        two.produce()
        assert two.partition.high_watermark == 3

    both(tmp_path, story)


def test_whoever_watches_a_follower_is_told_what_becomes_readable(tmp_path: Path) -> None:
    told: list[object] = []

    class Watcher:
        def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
            told.append(size_bytes)
            return True

        def changed(self) -> None:
            told.append("changed")

    async def story(one: Replica, two: Replica) -> None:
        two.partition.watchers[Watcher()] = None
        one.produce(2)
        await two.follow(one)
        assert sum(each for each in told if isinstance(each, int)) == 2 * len(ONE)
        two.partition.apply(state_of(2, 1))
        assert told[-1] == "changed"

    both(tmp_path, story)


def test_what_a_follower_has_is_not_noted_by_one_who_leads_no_more_when_its_fetch_has_been_read(tmp_path: Path) -> None:
    """A fetch of many partitions is read in several turns; the metadata may come between two of them."""

    async def story(one: Replica, two: Replica) -> None:
        one.produce(2)
        asked = FetchPartition(fetch_offset=2, partition_max_bytes=1 << 20, current_leader_epoch=0)
        cached = PartitionFetch("orders", asked, from_replica=True)
        cached.partition = one.partition
        fetch = _Fetch.__new__(_Fetch)
        fetch._replica, fetch._turn, fetch._unreadable = (2, -1), Turn(), []
        fetch._node = SimpleNamespace(clock=lambda: NOW_MS)  # type: ignore[assignment]
        fetch._read = [(cached, one.partition.read(cached, 1 << 20, True, False))]
        await fetch._turn.give_up()
        for leader, leader_epoch in ((2, 1), (1, 2)):
            one.partition.apply(state_of(leader, leader_epoch))
            fetch._unnoted = None
            fetch._note_progress()
        assert one.partition.high_watermark == 0, "it fetched from the leader of an older epoch"

    both(tmp_path, story)
