"""Requests that wait are woken by exactly what they wait for, and leave nothing behind."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas.node.broker.fetch_sessions import PartitionFetch
from barnabas.node.broker.waiting import WaitingFetch, WaitingProduce, Watcher
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition

NEVER_MS = 60_000


class WatchedPartition:
    def __init__(self) -> None:
        self.watchers: dict[Watcher, None] = {}
        self.high_watermark = 0
        self.error = ErrorCode.NONE

    def acknowledgement_error(self, leader_epoch: int) -> ErrorCode:
        return self.error

    def advance(self, size_bytes: int, *, stable_bytes: int | None = None, to: int = 0) -> None:
        self.high_watermark = to
        for watcher in list(self.watchers):
            if not watcher.advanced(size_bytes, size_bytes if stable_bytes is None else stable_bytes):
                del self.watchers[watcher]


def fetch_of(partition: WatchedPartition, waiting: WaitingFetch, max_bytes: int = 1000) -> PartitionFetch:
    fetch = PartitionFetch("topic", FetchPartition(partition=0, partition_max_bytes=max_bytes))
    fetch.available_bytes = 0
    fetch.waiting = waiting
    partition.watchers[fetch] = None
    return fetch


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


def test_a_fetch_wakes_when_its_least_bytes_are_there_and_not_before() -> None:
    async def story() -> None:
        first, second = WatchedPartition(), WatchedPartition()
        waiting = WaitingFetch(missing_bytes=300, read_committed=False)
        fetch_of(first, waiting)
        fetch_of(second, waiting)
        first.advance(200)
        assert not waiting.is_over
        second.advance(99)
        assert not waiting.is_over
        second.advance(1)
        assert waiting.is_over

    run(story())


def test_no_more_counts_than_the_partition_may_send() -> None:
    async def story() -> None:
        partition = WatchedPartition()
        waiting = WaitingFetch(missing_bytes=300, read_committed=False)
        fetch_of(partition, waiting, max_bytes=100)
        partition.advance(5000)
        assert waiting.missing_bytes == 200
        partition.advance(5000)
        assert not waiting.is_over

    run(story())


def test_a_reader_of_committed_records_waits_for_stable_bytes() -> None:
    async def story() -> None:
        partition = WatchedPartition()
        waiting = WaitingFetch(missing_bytes=10, read_committed=True)
        fetch_of(partition, waiting)
        partition.advance(500, stable_bytes=0)
        assert not waiting.is_over
        partition.advance(70, stable_bytes=570)
        assert waiting.is_over

    run(story())


def test_a_changed_partition_wakes_at_once() -> None:
    async def story() -> None:
        waiting = WaitingFetch(missing_bytes=10, read_committed=False)
        fetch_of(WatchedPartition(), waiting).changed()
        assert waiting.is_over

    run(story())


def test_time_wakes_who_found_nothing() -> None:
    async def story() -> None:
        await WaitingFetch(missing_bytes=1, read_committed=False).until_woken(1)

    run(story())


def test_the_timer_goes_with_the_request() -> None:
    async def story() -> None:
        waiting = WaitingFetch(missing_bytes=1, read_committed=False)
        task = asyncio.ensure_future(waiting.until_woken(NEVER_MS))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waiting.count_new(1)
        assert waiting.is_over

    run(story())


def test_a_produce_is_answered_when_its_records_are_committed_everywhere() -> None:
    async def story() -> None:
        first, second = WatchedPartition(), WatchedPartition()
        waiting = WaitingProduce()
        pending = [waiting.watch(first, 3, 10), waiting.watch(second, 3, 20)]
        first.advance(100, to=9)
        second.advance(100, to=25)
        assert not waiting.is_over
        first.advance(100, to=10)
        await waiting.until_decided(NEVER_MS, pending)
        assert [each.error for each in pending] == [ErrorCode.NONE, ErrorCode.NONE]
        assert not first.watchers
        assert not second.watchers

    run(story())


def test_a_produce_whose_replicas_are_slow_times_out() -> None:
    async def story() -> None:
        partition = WatchedPartition()
        waiting = WaitingProduce()
        pending = [waiting.watch(partition, 3, 10)]
        await waiting.until_decided(1, pending)
        assert pending[0].error is ErrorCode.REQUEST_TIMED_OUT
        assert not partition.watchers

    run(story())


def test_a_produce_learns_that_its_leader_has_gone() -> None:
    async def story() -> None:
        partition = WatchedPartition()
        waiting = WaitingProduce()
        pending = waiting.watch(partition, 3, 10)
        answer = asyncio.ensure_future(waiting.until_decided(NEVER_MS, [pending]))
        await asyncio.sleep(0)
        pending.changed()
        assert not waiting.is_over
        partition.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        pending.changed()
        await answer
        assert pending.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(story())


def test_a_produce_learns_of_what_happened_before_it_waited() -> None:
    async def story() -> None:
        committed, pending = WatchedPartition(), WatchedPartition()
        committed.high_watermark = 10
        waiting = WaitingProduce()
        each = [waiting.watch(committed, 3, 10), waiting.watch(pending, 3, 10)]
        answer = asyncio.ensure_future(waiting.until_decided(NEVER_MS, each))
        await asyncio.sleep(0)
        assert not waiting.is_over, "the other one is not committed yet"
        pending.advance(1, to=10)
        await answer
        assert [one.error for one in each] == [ErrorCode.NONE, ErrorCode.NONE]

    run(story())


def test_a_disconnected_produce_leaves_no_watcher() -> None:
    async def story() -> None:
        partition = WatchedPartition()
        waiting = WaitingProduce()
        pending = [waiting.watch(partition, 3, 10)]
        task = asyncio.ensure_future(waiting.until_decided(NEVER_MS, pending))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not partition.watchers

    run(story())
