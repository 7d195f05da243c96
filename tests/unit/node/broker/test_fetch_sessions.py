"""Fetch sessions: who continues one, who is sent away, what is looked at, what is told, who is evicted."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.node.broker.fetch_sessions import EVICTION_MS, MAX_EPOCH, CachedPartition, FetchSession, FetchSessions
from barnabas.node.broker.partition import PartitionRead
from barnabas.node.broker.waiting import WaitingFetch, Watcher
from barnabas.node.requests import ListenerKind, Session
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch import FetchPartition


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class WatchedPartition:
    def __init__(self) -> None:
        self.watchers: dict[Watcher, None] = {}

    def advance(self, size_bytes: int) -> None:
        for watcher in list(self.watchers):
            if not watcher.advanced(size_bytes, size_bytes):
                del self.watchers[watcher]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> FetchSessions:
    return FetchSessions(slots=2, clock=clock, new_id=itertools.count(1).__next__)


def cached(index: int, fetch_offset: int = 0, max_bytes: int = 1000) -> CachedPartition:
    return CachedPartition(
        "topic", FetchPartition(partition=index, fetch_offset=fetch_offset, partition_max_bytes=max_bytes)
    )


def read(partition: CachedPartition, *, records: bytes = b"", end: int = 0, start: int = 0, error: int = 0) -> bool:
    """What the handler does with one partition: note what was found, then ask whether to tell it."""
    found = PartitionRead(error) if error else PartitionRead(0, end, end, start, records)
    partition.available_bytes = len(records)
    return partition.settle(found, end)


def created(sessions: FetchSessions, count: int = 1) -> FetchSession:
    session = sessions.create([cached(index) for index in range(count)], count, False, False)
    assert session is not None
    return session


def watch(session: FetchSession) -> list[WatchedPartition]:
    partitions = [WatchedPartition() for _ in session.partitions]
    for each, partition in zip(session.partitions.values(), partitions, strict=True):
        each.partition = partition  # type: ignore[assignment]
        each.watch()
    return partitions


def refused(call: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code


def test_a_session_is_continued_with_the_next_epoch_only(sessions: FetchSessions) -> None:
    session = created(sessions)
    assert sessions.open(session.id, 1, False) is session
    assert sessions.proceed(session) == 2
    for epoch in (1, 3):
        assert refused(lambda epoch=epoch: sessions.open(session.id, epoch, False)) == (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH
        )


def test_an_unknown_session_sends_the_client_back_to_a_full_fetch(sessions: FetchSessions) -> None:
    assert refused(lambda: sessions.open(77, 1, False)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_names_is_not_continued_by_ids(sessions: FetchSessions) -> None:
    session = created(sessions)
    assert refused(lambda: sessions.open(session.id, 1, True)) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_epoch_begins_again_after_its_greatest_value(sessions: FetchSessions) -> None:
    session = created(sessions)
    session.epoch = MAX_EPOCH
    assert sessions.proceed(session) == 1


def test_what_has_been_read_to_its_end_is_not_looked_at_again(sessions: FetchSessions) -> None:
    session = created(sessions, 3)
    partitions = watch(session)
    for each in list(session.dirty):
        read(each, end=0)
    assert not session.dirty
    partitions[1].advance(50)
    assert [each.index for each in session.dirty] == [1]


def test_only_news_is_told(sessions: FetchSessions) -> None:
    session = created(sessions)
    (each,) = session.partitions.values()
    assert read(each, end=0)
    each.mark()
    assert not read(each, end=0)
    assert read(each, end=0, start=-5)
    assert read(each, end=7, start=-5)
    each.fetch_offset = 7
    assert not read(each, end=7, start=-5)


def test_an_error_is_told_until_it_has_gone_and_then_what_is_there(sessions: FetchSessions) -> None:
    session = created(sessions)
    (each,) = session.partitions.values()
    assert read(each, error=3)
    assert read(each, error=3)
    assert each in session.dirty
    assert read(each, end=0)
    assert each not in session.dirty


def test_who_was_served_goes_to_the_end_of_the_line(sessions: FetchSessions) -> None:
    session = created(sessions, 3)
    first, second, third = session.partitions.values()
    read(first, records=b"x" * 100, end=10)
    read(second, end=10)  # no room was left in the answer
    read(third, end=10)
    assert list(session.dirty) == [second, third, first]


def test_the_first_answer_gives_everybody_its_place(sessions: FetchSessions) -> None:
    session = created(sessions, 2)
    first, second = session.partitions.values()
    first.settle(PartitionRead(0, 10, 10, 0, b"x"), 10, first=True)
    assert list(session.dirty) == [first, second]


def test_a_partition_that_is_renewed_is_looked_at(sessions: FetchSessions) -> None:
    session = created(sessions, 2)
    for each in list(session.dirty):
        read(each)
    session.renew("topic", FetchPartition(partition=1, fetch_offset=5, partition_max_bytes=10))
    session.renew("other", FetchPartition(partition=0, fetch_offset=6))
    assert [(each.topic_key, each.index, each.fetch_offset) for each in session.dirty] == [
        ("topic", 1, 5),
        ("other", 0, 6),
    ]
    assert len(session.partitions) == 3


def test_a_forgotten_partition_is_not_watched_any_more(sessions: FetchSessions) -> None:
    session = created(sessions, 2)
    partitions = watch(session)
    session.forget("topic", 0)
    session.forget("topic", 9)
    partitions[0].advance(10)
    assert not partitions[0].watchers
    assert [each.index for each in session.dirty] == [1]


def test_another_isolation_level_looks_at_everything_again(sessions: FetchSessions) -> None:
    session = created(sessions, 2)
    for each in list(session.dirty):
        read(each)
    session.read_with(False)
    assert not session.dirty
    session.read_with(True)
    assert len(session.dirty) == 2


def test_a_waiting_fetch_hears_of_bytes_in_any_partition_of_its_session(sessions: FetchSessions) -> None:
    async def story() -> None:
        session = created(sessions, 1000)
        partitions = watch(session)
        for each in list(session.dirty):
            read(each)
        waiting = WaitingFetch(missing_bytes=100, read_committed=False)
        session.waiting.append(waiting)
        partitions[7].advance(60)
        partitions[7].advance(39)
        assert not waiting.is_over
        partitions[999].advance(1)
        assert waiting.is_over
        assert [each.index for each in session.dirty] == [7, 999]

    asyncio.run(story())


def test_a_session_that_nobody_uses_costs_an_append_nothing(sessions: FetchSessions) -> None:
    session = created(sessions)
    (partition,) = watch(session)
    (each,) = session.partitions.values()
    read(each)
    assert list(partition.watchers) == [each]
    partition.advance(10)
    assert not partition.watchers
    assert list(session.dirty) == [each]
    each.fetch_offset = 1
    read(each, end=1)
    assert list(partition.watchers) == [each]


def test_a_closed_session_wakes_who_waits_and_watches_nothing(sessions: FetchSessions) -> None:
    async def story() -> None:
        session = created(sessions)
        (partition,) = watch(session)
        waiting = WaitingFetch(missing_bytes=100, read_committed=False)
        session.waiting.append(waiting)
        sessions.close(session.id)
        assert waiting.is_over
        assert not partition.watchers
        watch(session)
        assert not partition.watchers

    asyncio.run(story())


def test_without_a_free_slot_there_is_no_new_session(sessions: FetchSessions) -> None:
    created(sessions)
    created(sessions)
    assert sessions.create([cached(0)], 1, False, False) is None
    assert (len(sessions), sessions.evictions) == (2, 0)


def test_a_session_long_unused_makes_room(sessions: FetchSessions, clock: Clock) -> None:
    old, busy = created(sessions), created(sessions)
    clock.now_ms += EVICTION_MS + 1
    sessions.proceed(busy)
    created(sessions)
    assert refused(lambda: sessions.open(old.id, 1, False)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.open(busy.id, 2, False) is busy
    assert sessions.evictions == 1


def test_a_larger_session_replaces_the_smallest_settled_one(sessions: FetchSessions, clock: Clock) -> None:
    small, large = created(sessions, 2), created(sessions, 4)
    clock.now_ms += EVICTION_MS + 1
    sessions.proceed(small)
    sessions.proceed(large)
    assert sessions.create([cached(0), cached(1)], 2, False, False) is None
    created(sessions, 3)
    assert refused(lambda: sessions.open(small.id, 2, False)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.cached_partitions == 7


def test_no_slots_at_all_mean_no_sessions(clock: Clock) -> None:
    assert FetchSessions(slots=0, clock=clock).create([cached(0)], 1, False, False) is None


def test_the_partitions_of_all_sessions_are_limited() -> None:
    clock = [0]
    sessions = FetchSessions(1000, lambda: clock[0], max_partitions=40)

    def create(size: int) -> FetchSession | None:
        cached = [CachedPartition("orders", FetchPartition(partition=index)) for index in range(size)]
        return sessions.create(cached, size, False, False)

    assert create(11) is None, "a quarter is the most that one session has"
    first = create(10)
    assert first is not None
    assert [create(10) is not None for _ in range(4)] == [True, True, True, False]
    clock[0] += EVICTION_MS + 1
    assert create(5) is not None
    assert not first.is_open
    assert sessions.cached_partitions == 35


def test_a_session_that_outgrows_the_limit_ends() -> None:
    sessions = FetchSessions(1000, lambda: 0, max_partitions=40)
    session = sessions.create([CachedPartition("orders", FetchPartition())], 1, False, False)
    assert session is not None
    sessions.require_room(session)
    for index in range(11):
        session.renew("orders", FetchPartition(partition=index))
    with pytest.raises(KafkaError) as refused:
        sessions.require_room(session)
    assert (refused.value.code, len(sessions)) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


def test_a_session_goes_soon_after_the_connection_that_used_it_last() -> None:
    later: list[Callable[[], None]] = []
    sessions = FetchSessions(1000, lambda: 0, call_later=lambda delay_s, call: later.append(call))
    old, new = (
        Session(
            listener="PLAINTEXT",
            kind=ListenerKind.BROKER,
            security_protocol=0,
            client_host="",
            client_port=port,
            routes={},
        )
        for port in (1, 2)
    )
    left, taken = (sessions.create([CachedPartition("t", FetchPartition())], 1, False, False) for _ in range(2))
    assert left is not None
    assert taken is not None
    for session in (left, taken):
        sessions.own(session, old)
    sessions.own(taken, new)
    assert old.on_closed is not None
    old.on_closed(old)
    assert left.is_open, "its client may come back over another connection"
    for call in later:
        call()
    assert (left.is_open, taken.is_open, len(sessions)) == (False, True, 1)


def test_a_session_whose_connection_is_gone_is_evicted_first() -> None:
    sessions = FetchSessions(2, lambda: 0, call_later=lambda delay_s, call: None)
    owner = Session(
        listener="", kind=ListenerKind.BROKER, security_protocol=0, client_host="", client_port=0, routes={}
    )
    kept, left = (sessions.create([CachedPartition("t", FetchPartition())], 1, False, False) for _ in range(2))
    assert kept is not None
    assert left is not None
    sessions.own(left, owner)
    sessions.owner_gone(owner)
    assert sessions.create([CachedPartition("t", FetchPartition())], 1, False, False) is not None
    assert (kept.is_open, left.is_open) == (True, False)
