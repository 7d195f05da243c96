"""One partition of an internal topic that this node leads: loaded, written, watched, timed.

Decisions of one turn of the loop are appended together at its end: one batch, one answer each. Only what costs less to
write than to wait for, as a commit of offsets does, is appended at once, with whatever waits. The partition tells us as
a watcher how far it is committed, and when it is no longer ours. Who waits longer for that than `write_timeout_ms` is
told COORDINATOR_NOT_AVAILABLE; what was written stays, and is committed when the replicas have it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.loading import Decoder, Loader, marker_record
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.runtime import Append, Shard, ShardRuntime, append_error
from barnabas.node.broker.partition import Partition
from barnabas.node.storage.directory.background import when_repaired
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.placing import Appended
from barnabas.wire.batch import Record, build_batch, compiled_records, decode_records
from barnabas.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")
S = TypeVar("S", bound=Shard)

log = logging.getLogger("barnabas.coordinators")

# A piece of the log that is replayed in one go takes a few milliseconds.
LOAD_PIECE_BYTES = 128 * 1024
# From here on the compiled reader is worth its import.
LOAD_FAST_BYTES = 4 * 1024 * 1024
SKIPS_SHOWN = 10
# Whoever waits is looked after so often within a time-out: it is exceeded by less than a part of it.
WRITE_TIMEOUT_PARTS = 5


class Loads:
    """What is being loaded, in all shards together: at a start that is every partition of the topic.

    While millions of offsets are loaded nothing becomes garbage, and looking for it would double the time.
    """

    def __init__(self) -> None:
        self._running = 0
        self._bytes = 0
        self._paused = False

    def begin(self, size_bytes: int) -> None:
        self._running += 1
        self._bytes += size_bytes
        if self.is_large and not self._paused:
            self._paused = True
            gc.disable()

    def end(self) -> None:
        self._running -= 1
        if self._running:
            return
        self._bytes = 0
        if self._paused:
            self._paused = False
            gc.freeze()
            gc.enable()

    @property
    def is_large(self) -> bool:
        return self._bytes > LOAD_FAST_BYTES


_loads = Loads()


class LedShard(Generic[S]):
    def __init__(
        self, partition: Partition, shard: S, clock: Callable[[], int], write_timeout_ms: int | None = None
    ) -> None:
        self.partition = partition
        self.shard = shard
        self.leader_epoch = partition.leader_epoch
        self.is_loaded = False
        self.is_lost = False
        self._clock = clock
        self._runtime: ShardRuntime[S] = ShardRuntime(shard)
        self._runtime.on_unwritten = self._write_soon
        shard.timers.on_earlier = self._set_timer
        self._timer: asyncio.TimerHandle | None = None
        self._write_timeout_ms = write_timeout_ms
        self._write_timer: asyncio.TimerHandle | None = None
        # How much was decided when the write timer ran, the last times.
        self._decided: deque[int] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._skips = 0
        self._writes_at_once = False
        self._is_writing = False
        # With `flush.messages`, committed is what has been synced as well; without, there is no such bound.
        self._syncing: int = 0
        self._synced_end = 0
        self._loaded_end = 0

    @property
    def has_uncommitted_past(self) -> bool:
        """Something that was loaded is not committed yet."""
        return self.partition.high_watermark < self._loaded_end

    # Loading and letting go

    def load(self) -> None:
        """An empty log is loaded at once, another one piece by piece."""
        self.partition.watchers[self] = None
        log_ = self.partition.log
        if log_.log_start_offset == log_.log_end_offset:
            self._loaded()
        else:
            _loads.begin(log_.size_bytes)
            self._loading = asyncio.ensure_future(self._load())
            self._loading.add_done_callback(lambda _: _loads.end())  # also if it never began

    async def _load(self) -> None:
        partition = self.partition
        try:
            decoder: Decoder = compiled_records if _loads.is_large else decode_records
            loader = Loader(self._runtime, partition.log.log_start_offset, decoder, self._skipped)
            while loader.next_offset < partition.log.log_end_offset:
                piece = await when_repaired(partial(partition.log.read, loader.next_offset, LOAD_PIECE_BYTES))
                if not piece:
                    break
                for _ in loader.feed(piece, partition.high_watermark):
                    await asyncio.sleep(0)
            for _ in loader.finish():
                await asyncio.sleep(0)
            self._loaded()
        except asyncio.CancelledError:
            raise
        except KafkaError as error:
            log.error(
                "%s cannot be loaded, so its groups or transactions are not served: %s",
                partition.log.name,
                error.message,
            )
        except Exception:
            log.exception("%s cannot be loaded, so its groups or transactions are not served", partition.log.name)

    def _skipped(self, why: str) -> None:
        self._skips += 1
        if self._skips <= SKIPS_SHOWN:
            log.error("%s: skipped while loading, because it cannot be read: %s", self.partition.log.name, why)

    def _loaded(self) -> None:
        if self._skips > SKIPS_SHOWN:
            log.error("%s: skipped %d records that cannot be read", self.partition.log.name, self._skips)
        self._loading = None
        self.is_loaded = True
        self._loaded_end = self.partition.log.log_end_offset
        self._runtime.committed(self.partition.high_watermark)
        decision = self.shard.loaded()
        if decision is not None:
            self._runtime.accept(decision)
        self._set_timer()

    def lose(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Led by another node, deleted, or its disk is gone; or this node stops."""
        if self.is_lost:
            return
        self.is_lost = True
        self.is_loaded = False
        self.partition.watchers.pop(self, None)
        if self._loading is not None:
            self._loading.cancel()
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._runtime.lost(KafkaError(code, f"{self.partition.log.name} is no longer coordinated here."))

    # Deciding

    def submit(self, operation: Callable[[S], Decision[T]]) -> Promise[T]:
        return self._runtime.decide(operation)

    def answer(self, operation: Callable[[S], Decision[T]]) -> T | Promise[T]:
        """As `submit`, without a promise where nothing has to be waited for: most heartbeats."""
        return self._runtime.answer(operation)

    def submit_at_once(self, operation: Callable[[S], Decision[T]]) -> T | Promise[T]:
        """As `submit`, and written before this returns: a promise only if a replica or a disk is waited for."""
        decision = operation(self.shard)
        if self.partition.commits_at_once and self._runtime.can_be_appended_first(decision):
            self._append_first(decision.records)
            assert not isinstance(decision.response, Promise)
            return decision.response
        self._writes_at_once = True
        try:
            promise = self._runtime.accept(decision)
        finally:
            self._writes_at_once = False
        if not promise.is_done:
            self.write()
        return promise

    def _append_first(self, records: Sequence[CoordinatorRecord]) -> None:
        try:
            self.partition.append_records([record.encode() for record in records], self._clock())
        except KafkaError as error:
            log.warning("could not append to %s: %s", self.partition.log.name, error)
            raise append_error(error) from error
        self._runtime.replay_committed(records)

    def require_loaded(self) -> None:
        if self.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not self.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    # Writing

    def _write_soon(self) -> None:
        if not self._writes_at_once:
            asyncio.get_running_loop().call_soon(self.write)

    def write(self) -> None:
        """Everything decided so far goes into the log; called by itself at the end of a turn of the loop."""
        if self.is_lost:
            return
        flush_due = False
        now_ms = self._clock()
        self._is_writing = True
        try:
            for batch in self._runtime.unwritten():
                appended = self._append(batch, now_ms)
                self._runtime.appended(batch, appended.last_offset + 1)
                flush_due = flush_due or appended.flush_due
        except KafkaError as error:
            log.warning("could not append to %s: %s", self.partition.log.name, error)
            self._runtime.append_failed(append_error(error), batch.position)
        finally:
            self._is_writing = False
        if flush_due:
            self._sync()
        self._committed()
        if self._write_timer is None and not self._runtime.is_committed:
            self._set_write_timer()

    def _set_write_timer(self) -> None:
        if self._write_timeout_ms is None:
            return
        self._decided.append(self._runtime.timeline.position)
        delay_s = self._write_timeout_ms / WRITE_TIMEOUT_PARTS / 1000
        self._write_timer = asyncio.get_running_loop().call_later(delay_s, self._time_out_writes)

    def _time_out_writes(self) -> None:
        self._write_timer = None
        if self._runtime.is_committed:
            self._decided.clear()
            return
        if len(self._decided) == WRITE_TIMEOUT_PARTS:
            late = self._runtime.time_out(self._decided.popleft())
            if late:
                log.warning(
                    "%s: %d requests waited for its replicas longer than %d ms",
                    self.partition.log.name,
                    late,
                    self._write_timeout_ms,
                )
        self._set_write_timer()

    def _append(self, batch: Append, now_ms: int) -> Appended:
        if batch.producer is None and batch.marker is None:
            return self.partition.append_records(batch.records, now_ms)
        return self.partition.append(transactional_batch(batch, now_ms), -1, now_ms, Origin.COORDINATOR)

    def _sync(self) -> None:
        end_offset = self.partition.log.log_end_offset
        background: Any = self.partition.log.background
        self._syncing += 1
        background.sync(self.partition.log).add_done_callback(partial(self._synced, end_offset))

    def _synced(self, end_offset: int, done: asyncio.Future[int]) -> None:
        self._syncing -= 1
        if done.cancelled() or done.exception() is not None:
            self.lose()
            return
        self._synced_end = max(self._synced_end, end_offset)
        self._committed()

    def _committed(self) -> None:
        high_watermark = self.partition.high_watermark
        if self._syncing:
            high_watermark = min(high_watermark, self._synced_end)
        self._runtime.committed(high_watermark)

    # Watching the partition

    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        if self.is_loaded and not self._is_writing:
            self._committed()
        return not self.is_lost

    def changed(self) -> None:
        partition = self.partition
        if partition.is_gone or not partition.is_leader or partition.log.offline:
            asyncio.get_running_loop().call_soon(self.lose)

    # Time

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        delay_ms = self.shard.timers.next_delay_ms
        if delay_ms is not None and self.is_loaded:
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        while self.is_loaded and (due := self.shard.timers.take_due()) is not None:
            try:
                decision = due()
                if decision is not None:
                    self._runtime.accept(decision)
            except KafkaError as error:
                log.warning("%s: a change that a timer asked for was refused: %s", self.partition.log.name, error)
            except Exception:
                log.exception("%s: a timer failed", self.partition.log.name)
        self._set_timer()


def transactional_batch(batch: Append, now_ms: int) -> bytearray:
    """A marker, or records that become valid with one."""
    if batch.marker is not None:
        key, value = marker_record(batch.marker)
        return build_batch(
            [Record(0, now_ms, key, value)],
            producer_id=batch.marker.producer_id,
            producer_epoch=batch.marker.producer_epoch,
            transactional=True,
            control=True,
        )
    assert batch.producer is not None
    return build_batch(
        [Record(index, now_ms, key, value) for index, (key, value) in enumerate(batch.records)],
        producer_id=batch.producer.producer_id,
        producer_epoch=batch.producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
