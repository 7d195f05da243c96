"""A partition that this node leads, as one share group sees it: read from the log, given out, locked, written down.

What members have taken lives here only. If its state cannot be written, or another one leads, everything is forgotten:
the next fetch begins with what was persisted, and records that were taken are given out again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from barnabas.core.share.batches import StateBatch
from barnabas.core.share.partition import Acknowledgement, Acquired, SharePartition, Taking
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.partition import ANY_SIZE, Partition
from barnabas.node.broker.shares.persister import Known, Persister, ask_until_settled
from barnabas.node.broker.shares.settings import DeliverySettings
from barnabas.node.storage.directory.files import FileRange
from barnabas.wire.batch import BatchHeader, iterate_batches
from barnabas.wire.errors import KafkaError

log = logging.getLogger("barnabas.shares")

# A fetch may be for megabytes and few records: the log is read in pieces until there are enough.
PIECE_BYTES = 128 * 1024


class Taken(NamedTuple):
    records: bytes = b""
    acquired: Sequence[Acquired] = ()


class ServedPartition:
    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        known: Known,
        state: SharePartition,
        persister: Persister,
        settings: Callable[[], DeliverySettings],
        now_ms: Callable[[], int],
    ) -> None:
        self.key = key
        self.partition = partition
        self.state = state
        self.is_lost = False
        self._known = known
        self._persister = persister
        self._settings = settings
        self._now_ms = now_ms
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Told when records have become free.
        self.on_free: set[Callable[[], None]] = set()

    @property
    def is_current(self) -> bool:
        partition = self.partition
        leads = not partition.is_gone and partition.is_leader
        return leads and partition.leader_epoch == self._known.leader_epoch and not self.is_lost

    # Giving out

    def take(self, member_id: str, most_records: int, max_bytes: int, *, exact: bool) -> Taken:
        if not self.is_current:
            return Taken()  # led by somebody else since it was found: the next fetch is told
        settings, state, partition = self._settings(), self.state, self.partition
        state.archive_before(partition.log.log_start_offset)
        offset = state.next_fetch_offset()
        end_offset = partition.readable_end(settings.read_committed)
        is_full = state.in_flight >= settings.most_in_flight and offset >= state.end_offset
        if offset >= end_offset or is_full or most_records <= 0:
            return Taken()
        pieces: list[bytes] = []
        acquired: list[Acquired] = []
        # Behind the last batch that was looked at: aborted records that are left out from here on are passed with the
        # next batch.
        read_from = offset
        taking = Taking(most_records, settings.most_deliveries)
        new_from = state.end_offset
        while taking.left > 0 and not taking.is_over and max_bytes > 0 and offset < end_offset:
            found = partition.log.fetch(
                offset,
                min(max_bytes, PIECE_BYTES),
                upper_bound_offset=end_offset,
                min_one_batch=True,
                eager_bytes=ANY_SIZE,
            )
            assert not isinstance(found, FileRange), "whatever is asked for is read at once"
            if not found or (pieces and len(found) > max_bytes):
                break
            data = bytes(found)
            batches = list(iterate_batches(data))
            last = batches[-1][1]
            if settings.read_committed:
                aborted = partition.log.aborted_in_read(offset, len(data), end_offset)
                batches = _committed(batches, [(each.producer_id, each.first_offset) for each in aborted])
            taken, read_from = self._acquire(member_id, read_from, data, batches, taking, settings, exact)
            pieces.append(taken.records)
            acquired += taken.acquired
            max_bytes -= len(data)
            offset = last.base_offset + last.last_offset_delta + 1
            if state.in_flight >= settings.most_in_flight and offset >= state.end_offset:
                break
        if not acquired:
            if read_from <= state.end_offset:  # else the last batch found no room
                state.pass_over(read_from, offset)
            return Taken()
        state.taken_together(new_from)
        self._set_timer()
        return Taken(b"".join(pieces), acquired)

    def _acquire(
        self,
        member_id: str,
        read_from: int,
        data: bytes,
        batches: list[tuple[int, BatchHeader]],
        taking: Taking,
        settings: DeliverySettings,
        exact: bool,
    ) -> tuple[Taken, int]:
        """And behind the last batch that was looked at."""
        acquired: list[Acquired] = []
        begin = end = -1
        for position, header in batches:
            if taking.left <= 0 or taking.is_over:
                break
            last = header.base_offset + header.last_offset_delta
            taken = self.state.acquire(
                member_id,
                max(header.base_offset, self.state.start_offset),
                last,
                read_from=read_from,
                taking=taking,
                most_in_flight=settings.most_in_flight,
                locked_until_ms=self._now_ms() + settings.lock_duration_ms,
                exact=exact,
            )
            read_from = last + 1
            if taken:
                begin = position if begin < 0 else begin
                end = position + header.size
                acquired += taken
        return (Taken(data[begin:end], acquired) if acquired else Taken()), read_from

    # Taking back

    async def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        settings = self._settings()
        changed = self.state.acknowledge(
            member_id,
            acknowledgements,
            most_deliveries=settings.most_deliveries,
            locked_until_ms=self._now_ms() + settings.lock_duration_ms,
            may_renew=settings.may_renew,
        )
        self._set_timer()
        if changed:
            # Its client may hang up meanwhile; what it said is written all the same.
            await asyncio.shield(self._keep(self._persist(changed)))

    async def release(self, member_id: str) -> None:
        await self._persist(self.state.release(member_id, most_deliveries=self._settings().most_deliveries))

    async def _persist(self, changed: Sequence[StateBatch]) -> None:
        if not changed:
            return
        written = 0

        async def write() -> None:
            """The whole state if it is written again: writes that were made since may have arrived before it."""
            nonlocal written
            state = self.state
            batches = state.to_persist() if written else changed
            written += 1
            await self._persister.write(
                self.key,
                self._known,
                state.start_offset,
                state.delivery_complete_count,
                [each for each in batches if each.last_offset >= state.start_offset],
            )

        try:
            await ask_until_settled(write, lambda: self.is_current)
        except KafkaError as error:
            log.warning("the state of %s could not be written: %s", self.key.coordinator_key, error)
            self.lose()
            raise
        for told in list(self.on_free):
            told()

    # Time

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.state.next_deadline_ms()
        if deadline_ms is not None and not self.is_lost:
            delay_ms = max(deadline_ms - self._now_ms(), 0)
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        changed = self.state.expire(self._now_ms(), most_deliveries=self._settings().most_deliveries)
        self._set_timer()
        self.run(self._persist(changed))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._keep(_quietly(work))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # told to whoever waits, if anybody still does

    def lose(self) -> None:
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for told in list(self.on_free):
            told()


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except KafkaError:
        pass  # said already; the partition is forgotten


def _committed(batches: list[tuple[int, BatchHeader]], aborted: list[tuple[int, int]]) -> list[tuple[int, BatchHeader]]:
    """Those that are no records of a transaction that was aborted."""
    waiting = sorted(aborted, key=lambda each: each[1])
    open_aborted: set[int] = set()
    kept = []
    for position, header in batches:
        while waiting and waiting[0][1] <= header.base_offset + header.last_offset_delta:
            open_aborted.add(waiting.pop(0)[0])
        if header.is_control:
            open_aborted.discard(header.producer_id)
        if not (header.is_transactional and header.producer_id in open_aborted):
            kept.append((position, header))
    return kept
