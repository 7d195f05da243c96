"""A partition as a share group sees it: which of its records are free, taken, and done with.

Records between the start and the end offset are in flight. They are kept as runs of neighbours that are alike:

    AVAILABLE     may be given to a member
    ACQUIRED      given to a member, until its lock runs out
    ACKNOWLEDGED  accepted: done with
    ARCHIVED      rejected, a gap, or delivered too often: done with

    AVAILABLE -> ACQUIRED                    fetched; the delivery count goes up
    ACQUIRED  -> ACKNOWLEDGED                accepted
    ACQUIRED  -> ARCHIVED                    rejected, a gap, or released after the last delivery allowed
    ACQUIRED  -> AVAILABLE                   released, its lock ran out, or its member's session ended
    ACQUIRED  -> ACQUIRED                    renewed: the lock begins anew

The start moves over whatever is done with. What has changed is handed out as batches to persist; taken records are not
persisted, so that after a change of the leader they are free again. No record is ever with two members.

A record that no member survives must not take others with it: what was delivered half as often as is allowed comes in
ever smaller parts of what was taken together first, and for the last time alone (`Taking`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from barnabas.core.share.batches import StateBatch
from barnabas.wire.errors import ErrorCode, KafkaError


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


@dataclass(frozen=True, slots=True)
class Run:
    first: int
    last: int
    state: RecordState
    deliveries: int = 0
    member_id: str = ""
    locked_until_ms: int = 0


class Acquired(NamedTuple):
    first: int
    last: int
    deliveries: int


@dataclass(slots=True)
class Taking:
    """What one fetch may take still: told from one batch of the log to the next."""

    left: int
    most_deliveries: int
    count: int = 0
    is_over: bool = False
    # Records that were delivered too often to be harmless: so many of these offsets, and nothing else.
    most: int | None = None
    offsets: tuple[int, int] = (-1, -1)

    def bound(self, run: Run, begin: int, end: int, offsets: tuple[int, int]) -> int | None:
        """How far of `begin` to `end` may be taken; None if not at all. `offsets` were taken together first."""
        deliveries, most = run.deliveries, self.most_deliveries
        suspect_from = max(2, -(-most // 2))
        is_suspect = deliveries >= suspect_from
        if offsets != self.offsets and (self.most is not None or (is_suspect and self.count)):
            return self._stop()
        self.offsets = offsets
        if deliveries == most - 1 and most > 2:
            return self._stop(None if self.count else begin)
        if is_suspect and self.most is None:
            size = offsets[1] - offsets[0] + 1
            self.most = max(1, size >> (deliveries - suspect_from + 1))
        if self.most is not None and end - begin + 1 >= self.most - self.count:
            last = begin + self.most - self.count - 1
            return self._stop(last if last >= begin else None)
        return end

    def _stop(self, last: int | None = None) -> int | None:
        self.is_over = True
        return last


class Acknowledgement(NamedTuple):
    """Types are one for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class SharePartition:
    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """As it was persisted."""
        self.start_offset = start_offset
        self._runs: list[Run] = []
        # Which records were taken together first, or were persisted as one batch.
        self._together: list[tuple[int, int]] = []
        for each in sorted(batches):
            state = RecordState(each.delivery_state)
            if state is RecordState.ACQUIRED:
                state = RecordState.AVAILABLE
            first = max(each.first_offset, start_offset)
            if first <= each.last_offset:
                self._fill_gap(first)
                self._runs.append(Run(first, each.last_offset, state, each.delivery_count))
                self._together.append((first, each.last_offset))
        self._move_start()

    def _fill_gap(self, first: int) -> None:
        """What nobody wrote about lies between what somebody did: it is free."""
        if first > self.end_offset:
            self._runs.append(Run(self.end_offset, first - 1, RecordState.AVAILABLE))

    @property
    def end_offset(self) -> int:
        """The first that is not in flight."""
        return self._runs[-1].last + 1 if self._runs else self.start_offset

    @property
    def in_flight(self) -> int:
        return self.end_offset - self.start_offset

    @property
    def runs(self) -> Sequence[Run]:
        return self._runs

    @property
    def delivery_complete_count(self) -> int:
        """Records behind the start that are done with."""
        return sum(run.last - run.first + 1 for run in self._runs if run.state.is_terminal)

    def to_persist(self) -> list[StateBatch]:
        """All that is in flight. Taken records are written as they were before they were taken."""
        batches = []
        for run in self._runs:
            is_taken = run.state is RecordState.ACQUIRED
            state, deliveries = (RecordState.AVAILABLE, run.deliveries - 1) if is_taken else (run.state, run.deliveries)
            if state.is_terminal or deliveries:
                batches.append(StateBatch(run.first, run.last, state, deliveries))
        return batches

    def next_fetch_offset(self) -> int:
        """Where the first free record lies, or the end."""
        return next((run.first for run in self._runs if run.state is RecordState.AVAILABLE), self.end_offset)

    def next_deadline_ms(self) -> int | None:
        return min((run.locked_until_ms for run in self._runs if run.state is RecordState.ACQUIRED), default=None)

    # Giving out

    def acquire(
        self,
        member_id: str,
        first: int,
        last: int,
        *,
        read_from: int,
        taking: Taking,
        most_in_flight: int,
        locked_until_ms: int,
        exact: bool = False,
    ) -> list[Acquired]:
        """Of a batch of the log, `first` to `last`, whatever is free, up to what is left to be taken.

        Between `read_from` and `first` the log has nothing to give out: compacted records, or aborted ones.
        Unless it is to be `exact`, a run that begins within that is given whole, as its batch cannot be read in
        parts."""
        if read_from > self.end_offset:
            return []  # records before it found no room, and come first
        self.pass_over(read_from, first)
        room = most_in_flight - self.in_flight
        new_last = min(last, self.end_offset + room - 1) if room > 0 else self.end_offset - 1
        if new_last >= self.end_offset:
            self._runs.append(Run(max(self.end_offset, first), new_last, RecordState.AVAILABLE))
        taken: list[Acquired] = []
        for run in self._between(first, last):
            if taking.left <= 0 or taking.is_over:
                break
            if run.state is not RecordState.AVAILABLE:
                continue
            begin, end = max(run.first, first), min(run.last, last)
            bound = taking.bound(run, begin, end, self._taken_with(begin, (first, last)))
            if bound is None:
                break
            end = min(bound, begin + taking.left - 1) if exact else bound
            self._set(
                begin,
                end,
                replace(
                    run,
                    state=RecordState.ACQUIRED,
                    deliveries=run.deliveries + 1,
                    member_id=member_id,
                    locked_until_ms=locked_until_ms,
                ),
            )
            taking.left -= end - begin + 1
            taking.count += end - begin + 1
            taken.append(Acquired(begin, end, run.deliveries + 1))
        self._drop_untouched()
        return taken

    def taken_together(self, first: int) -> None:
        """One fetch has taken what is in flight from `first` on."""
        if first < self.end_offset:
            self._together.append((first, self.end_offset - 1))

    def _taken_with(self, offset: int, otherwise: tuple[int, int]) -> tuple[int, int]:
        at = bisect_right(self._together, (offset, self.end_offset)) - 1
        return self._together[at] if at >= 0 and offset <= self._together[at][1] else otherwise

    def pass_over(self, first: int, end: int) -> None:
        """The log has nothing to give out from `first` up to `end`: what is free there is done with.

        Of free records that are not at the end nobody may have written anything, or they were compacted since: they
        would be read again and again, and the start would never move over them."""
        for run in self._between(first, end - 1) if first < end else ():
            if run.state is RecordState.AVAILABLE:
                self._set(max(run.first, first), min(run.last, end - 1), replace(run, state=RecordState.ARCHIVED))
        if end > self.end_offset:
            self._runs.append(Run(self.end_offset, end - 1, RecordState.ARCHIVED))
        self._move_start()

    def _drop_untouched(self) -> None:
        """Free records at the end that were never delivered need not be in flight."""
        while self._runs and self._runs[-1].state is RecordState.AVAILABLE and not self._runs[-1].deliveries:
            self._runs.pop()

    # Taking back

    def acknowledge(
        self,
        member_id: str,
        acknowledgements: Iterable[Acknowledgement],
        *,
        most_deliveries: int,
        locked_until_ms: int,
        may_renew: bool = True,
    ) -> list[StateBatch]:
        """All or nothing; the batches to persist. Raises `KafkaError` for records that the member does not have."""
        wanted = [piece for each in acknowledgements for piece in _pieces(each)]
        before: int | None = None
        for first, last, kind in wanted:
            if first == before:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"The record at offset {first} is there twice.")
            before = last
            if kind is AcknowledgeType.RENEW and not may_renew:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Records cannot be renewed in this group.")
            self._require_acquired(member_id, first, last)
        changed = []
        for first, last, kind in wanted:
            changed += self._apply(max(first, self.start_offset), last, kind, most_deliveries, locked_until_ms)
        self._move_start()
        return changed

    def _require_acquired(self, member_id: str, first: int, last: int) -> None:
        if first > last:
            raise KafkaError(ErrorCode.INVALID_REQUEST)  # no range
        if last >= self.end_offset and last >= self.start_offset:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The record at offset {last} has not been fetched.")
        expected = max(first, self.start_offset)
        for run in self._between(expected, last):
            if run.first > expected or run.state is not RecordState.ACQUIRED or run.member_id != member_id:
                break
            expected = run.last + 1
        if expected <= last:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, f"The record at offset {expected} is not acquired by {member_id}."
            )

    def _apply(
        self, first: int, last: int, kind: AcknowledgeType, most_deliveries: int, locked_until_ms: int
    ) -> list[StateBatch]:
        changed = []
        for run in self._between(first, last):
            begin, end = max(run.first, first), min(run.last, last)
            if kind is AcknowledgeType.RENEW:
                self._set(begin, end, replace(run, locked_until_ms=locked_until_ms))
                continue
            state = _state_after(kind, run.deliveries, most_deliveries)
            self._set(begin, end, Run(begin, end, state, run.deliveries))
            changed.append(StateBatch(begin, end, state, run.deliveries))
        return changed

    def release(self, member_id: str, *, most_deliveries: int) -> list[StateBatch]:
        """Everything that a member has: its session ends."""
        return self._release([run for run in self._runs if run.member_id == member_id], most_deliveries)

    def expire(self, now_ms: int, *, most_deliveries: int) -> list[StateBatch]:
        """Whatever was locked until now."""
        return self._release([run for run in self._runs if run.locked_until_ms <= now_ms], most_deliveries)

    def _release(self, runs: Iterable[Run], most_deliveries: int) -> list[StateBatch]:
        changed = []
        for run in runs:
            if run.state is RecordState.ACQUIRED:
                changed += self._apply(run.first, run.last, AcknowledgeType.RELEASE, most_deliveries, 0)
        self._move_start()
        return changed

    def archive_before(self, offset: int) -> bool:
        """The log begins there now; whether anything has changed."""
        if offset <= self.start_offset:
            return False
        self._runs = [replace(run, first=max(run.first, offset)) for run in self._between(offset, self.end_offset)]
        self.start_offset = offset
        self._move_start()
        return True

    # Runs

    def _between(self, first: int, last: int) -> list[Run]:
        """Those that touch the range, in order."""
        at = max(bisect_right(self._runs, first, key=lambda run: run.first) - 1, 0)
        found = []
        while at < len(self._runs) and self._runs[at].first <= last:
            if self._runs[at].last >= first:
                found.append(self._runs[at])
            at += 1
        return found

    def _set(self, first: int, last: int, like: Run) -> None:
        """Makes a part of one run another."""
        at = bisect_right(self._runs, first, key=lambda run: run.first) - 1
        run = self._runs[at]
        assert run.first <= first <= last <= run.last, "a part of a run lies within it"
        pieces = [replace(like, first=first, last=last)]
        if run.first < first:
            pieces.insert(0, replace(run, last=first - 1))
        if last < run.last:
            pieces.append(replace(run, first=last + 1))
        self._runs[at : at + 1] = pieces

    def _move_start(self) -> None:
        done = 0
        while done < len(self._runs) and self._runs[done].state.is_terminal:
            self.start_offset = self._runs[done].last + 1
            done += 1
        del self._runs[:done]
        del self._together[: bisect_right(self._together, self.start_offset - 1, key=lambda each: each[1])]
        if self._runs and self._runs[0].first > self.start_offset:
            self._runs.insert(0, Run(self.start_offset, self._runs[0].first - 1, RecordState.AVAILABLE))


def _state_after(kind: AcknowledgeType, deliveries: int, most_deliveries: int) -> RecordState:
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.RELEASE and deliveries < most_deliveries:
        return RecordState.AVAILABLE
    return RecordState.ARCHIVED


def _pieces(each: Acknowledgement) -> list[tuple[int, int, AcknowledgeType]]:
    """Ranges of one type."""
    try:
        types = [AcknowledgeType(kind) for kind in each.types]
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST) from error
    if len(types) == 1:
        return [(each.first, each.last, types[0])]
    if len(types) != each.last - each.first + 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST)  # one type for all offsets, or one for each
    pieces: list[tuple[int, int, AcknowledgeType]] = []
    for offset, kind in enumerate(types, each.first):
        if pieces and pieces[-1][2] is kind:
            pieces[-1] = (pieces[-1][0], offset, kind)
        else:
            pieces.append((offset, offset, kind))
    return pieces
