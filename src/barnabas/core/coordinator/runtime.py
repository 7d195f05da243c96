"""One partition of an internal topic as a state machine: decisions in, batches to append out, answers when committed.

    decide      An operation looks at the shard and returns a `Decision`. Its records are replayed into the shard at
                once, so the next operation sees them, and wait to be written.
    unwritten   What waits, in batches. The shell appends them in order and says `appended` with the log's end, or
                `append_failed`.
    committed   The high watermark has passed an end: the decisions before it are answered. A decision without records
                is answered with the last one before it, since it may rest on that one's records.
    at once     With nothing else under way, records that are committed as soon as they are appended need none of this:
                the shell appends them first and has them replayed as those of a log that is loaded.
    time_out    Who waits longer than allowed is refused. What it asked for stays decided, and may be committed yet.
    lost        Another node leads: everybody who waits is told so, and the shard is thrown away.

A failed append takes the shard back to what has been appended: what is in the log may still be committed, and what is
not never happened. Losing the leadership takes it back further than anybody looks, because a shard is loaded anew from
the log. Offsets and positions are kept apart: a position counts decisions (see `timeline`), and `_written` says which
log end commits which position.

The shard's state that is not in records (who waits, when what times out) is its own business: `Decision.decided` tells
it how its records fared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.core.coordinator.decision import Decision, Marker, Producer
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.records import CoordinatorRecord, Kinds
from barnabas.core.coordinator.timeline import Timeline
from barnabas.core.coordinator.timers import Timers
from barnabas.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")
S = TypeVar("S", bound="Shard")

BATCH_BYTES_MAX = 512 * 1024
RECORD_OVERHEAD_BYTES = 24
# How many records of a decision that is not atomic stay together.
PIECE_RECORDS = 100


class Shard(Protocol):
    """What groups and transactions are to the runtime."""

    timeline: Timeline
    timers: Timers

    @property
    def keeps_last_only(self) -> bool:
        """Of several values of one key only the last counts: what is before need not be replayed."""

    @property
    def kinds(self) -> Kinds:
        """The types of records that are understood."""

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None: ...

    def load(self, entries: Sequence[tuple[bytes, bytes | None]], start: int) -> int:
        """A shorter way for what fills most of the log: takes keys and values from `start` on, and says where it
        stopped, at the end or at something that is to be decoded and replayed."""

    def replay_marker(self, marker: Marker) -> None: ...

    def loaded(self) -> Decision[None] | None:
        """Everything in the log has been replayed: timers begin to run."""

    def unloaded(self, error: KafkaError) -> None:
        """Answers whoever waits in the shard itself."""


class Append(NamedTuple):
    """What is appended in one piece: records of one producer or of none, or the marker of a transaction's end."""

    records: list[tuple[bytes, bytes | None]]
    producer: Producer | None
    marker: Marker | None
    position: int


class _Waiting(NamedTuple):
    position: int
    promise: Promise[Any]
    decision: Decision[Any]


class ShardRuntime(Generic[S]):
    def __init__(self, shard: S) -> None:
        self.shard = shard
        self.timeline = shard.timeline
        self._waiting: deque[_Waiting] = deque()
        self._batches: list[Append] = []
        self._open_bytes = 0
        self._appended_position = 0
        self._written: deque[tuple[int, int]] = deque()
        # Told when there is something to write and was nothing before.
        self.on_unwritten: Callable[[], None] | None = None

    @property
    def is_committed(self) -> bool:
        """Nothing is decided that is not committed."""
        return not self._batches and not self._written

    # Deciding

    def decide(self, operation: Callable[[S], Decision[T]]) -> Promise[T]:
        try:
            decision = operation(self.shard)
        except KafkaError as error:
            promise: Promise[T] = Promise()
            promise.fail(error)
            return promise
        return self.accept(decision)

    def answer(self, operation: Callable[[S], Decision[T]]) -> T | Promise[T]:
        """A promise only if something has to be written, or is being written; raises what the operation refuses."""
        decision = operation(self.shard)
        if decision.records or decision.marker is not None or self._batches or self._written:
            return self.accept(decision)
        return decision.response

    def accept(self, decision: Decision[T]) -> Promise[T]:
        if not decision.records and decision.marker is None:
            return self._accept_without_records(decision)
        pieces = [decision.records] if decision.atomic else _pieces(decision.records)
        was_empty = not self._batches
        for piece in pieces:
            self._take(piece, decision)
        promise: Promise[T] = Promise()
        self._waiting.append(_Waiting(self.timeline.position, promise, decision))
        if was_empty and self.on_unwritten is not None:
            self.on_unwritten()
        return promise

    def can_be_appended_first(self, decision: Decision[Any]) -> bool:
        """Nothing else is under way, and there is nothing to the decision but records and an answer."""
        return (
            not (self._waiting or self._batches or self._written)
            and bool(decision.records)
            and decision.atomic
            and decision.producer is None
            and decision.marker is None
            and decision.decided is None
            and not isinstance(decision.response, Promise)
        )

    def replay_committed(self, records: Sequence[CoordinatorRecord]) -> None:
        """Of a decision that could be appended first, and has been: there is nothing to take back."""
        self.timeline.recording = False
        for record in records:
            self.shard.replay(record, None)

    def _accept_without_records(self, decision: Decision[T]) -> Promise[T]:
        if isinstance(decision.response, Promise):
            return decision.response
        promise: Promise[T] = Promise()
        if self.is_committed:
            promise.set(decision.response)
        else:
            self._waiting.append(_Waiting(self.timeline.position, promise, decision))
        return promise

    def _take(self, records: Sequence[CoordinatorRecord], decision: Decision[Any]) -> None:
        before = self.timeline.position
        encoded = [record.encode() for record in records]
        position = self.timeline.begin()
        try:
            for record in records:
                self.shard.replay(record, decision.producer)
            if decision.marker is not None:
                self.shard.replay_marker(decision.marker)
        except BaseException:
            self.timeline.revert(before)
            raise
        if encoded:
            self._add(encoded, decision.producer, position)
        if decision.marker is not None:
            self._batches.append(Append([], None, decision.marker, position))
            self._open_bytes = BATCH_BYTES_MAX

    def _add(self, encoded: list[tuple[bytes, bytes | None]], producer: Producer | None, position: int) -> None:
        size = sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in encoded)
        last = self._batches[-1] if self._batches else None
        if last is None or last.producer != producer or self._open_bytes + size > BATCH_BYTES_MAX:
            self._batches.append(Append(encoded, producer, None, position))
            self._open_bytes = size
        else:
            last.records.extend(encoded)
            self._batches[-1] = last._replace(position=position)
            self._open_bytes += size

    # Writing

    def unwritten(self) -> list[Append]:
        """What is to be appended now, in this order; say `appended` after each, or `append_failed` for all the rest."""
        batches, self._batches = self._batches, []
        self._open_bytes = 0
        return batches

    def appended(self, batch: Append, end_offset: int) -> None:
        self._appended_position = batch.position
        self._written.append((end_offset, batch.position))

    def append_failed(self, error: KafkaError, position: int | None = None) -> None:
        """Nothing behind what was appended has happened.

        `position` is that of the batch that was refused. What was decided behind it may rest on it, and is to be tried
        again: a producer that is fenced is no matter of theirs.
        """
        self._batches = []
        self.timeline.revert(self._appended_position)
        failed = [each for each in self._waiting if each.position > self._appended_position]
        for _ in failed:
            self._waiting.pop()
        for each in failed:
            is_behind = position is not None and each.position > position
            self._fail(each, _of_a_former(error) if is_behind else error)

    def committed(self, high_watermark: int) -> None:
        written = self._written
        position = 0
        while written and written[0][0] <= high_watermark:
            position = written.popleft()[1]
        if not position:
            return
        self.timeline.commit(position)
        while self._waiting and self._waiting[0].position <= position:
            self._succeed(self._waiting.popleft())

    def time_out(self, position: int) -> int:
        """Refuses who still waits for what was decided up to `position`; returns how many that were."""
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The replicas did not take the records in time.")
        late = [each.promise for each in self._waiting if each.position <= position and not each.promise.is_done]
        for promise in late:
            promise.fail(error)
        return len(late)

    def lost(self, error: KafkaError) -> None:
        """The shard is of no use any more."""
        self._batches = []
        waiting, self._waiting = self._waiting, deque()
        self.timeline.revert(0)
        for each in waiting:
            self._fail(each, error)
        self.shard.unloaded(error)
        self.shard.timers.cancel_all()

    # Loading

    def loaded_uncommitted(self, end_offset: int) -> None:
        """What is replayed next was found in the log above the high watermark, and ends there."""
        position = self.timeline.begin()
        self._appended_position = position
        self._written.append((end_offset, position))

    @staticmethod
    def _succeed(waiting: _Waiting) -> None:
        decision = waiting.decision
        if decision.decided is not None:
            decision.decided(None)
        if isinstance(decision.response, Promise):
            waiting.promise.follow(decision.response)
        else:
            waiting.promise.set(decision.response)

    @staticmethod
    def _fail(waiting: _Waiting, error: KafkaError) -> None:
        decision = waiting.decision
        if decision.decided is not None:
            decision.decided(error)
        if isinstance(decision.response, Promise) and decision.response.is_done:
            waiting.promise.follow(decision.response)
        else:
            waiting.promise.fail(error)


def _pieces(records: Sequence[CoordinatorRecord]) -> list[Sequence[CoordinatorRecord]]:
    return [records[start : start + PIECE_RECORDS] for start in range(0, len(records), PIECE_RECORDS)]


def _of_a_former(error: KafkaError) -> KafkaError:
    """What those are told who come behind a decision that could not be appended."""
    if error.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        return error
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)


def append_error(error: KafkaError) -> KafkaError:
    """What a client of the coordinator is told when its records could not be appended."""
    if error.code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
    ):
        return KafkaError(ErrorCode.NOT_COORDINATOR, error.message)
    if error.code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    ):
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)
    return error
