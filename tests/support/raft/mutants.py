"""Replicas with one rule broken each: the judges must catch every one of them, or they watch for nothing.

`python -m tests.support.raft.mutants [seeds]` tells for each mutant which seed caught it, and how.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from barnabas.core.raft import changing, decide, epochs, following, leading, log, state
from barnabas.core.raft.replica import Replica
from barnabas.wire.errors import ErrorCode
from tests.support.raft.story import Story

SEEDS_MAX = 2000


def _patch(target: Any, name: str, value: Any) -> AbstractContextManager[Any]:
    return mock.patch.object(target, name, value)


def vote_not_persisted() -> AbstractContextManager[Any]:
    """A vote is given and not written."""
    vote_for = Replica.vote_for

    def forgetful(self: Replica, candidate: Any, now_ms: int) -> None:
        before = self.effects.quorum_state
        vote_for(self, candidate, now_ms)
        self.effects.quorum_state = before

    return _patch(Replica, "vote_for", forgetful)


def stale_epoch_accepted() -> AbstractContextManager[Any]:
    """A leader of an older epoch is taken for the leader of this one."""

    def lenient(self: Replica, leader_id: int, epoch: int, endpoints: Any, now_ms: int) -> ErrorCode:
        known = endpoints or self.voters.endpoints(leader_id)
        epochs.learn_leader(self, leader_id, max(epoch, self.epoch), known, now_ms)
        return ErrorCode.NONE

    return _patch(epochs, "_learn", lenient)


def older_epoch_committed_by_counting() -> AbstractContextManager[Any]:
    """What a majority has is committed, whoever wrote it."""

    def count(leader: state.Leader) -> int | None:
        ends = sorted((voter.end_offset for voter in leader.voters.values()), reverse=True)
        return ends[len(ends) // 2] if ends[len(ends) // 2] > 0 else None

    return _patch(decide, "committed_offset", count)


def snapshot_past_the_commit() -> AbstractContextManager[Any]:
    """A snapshot may be taken at the end of the log."""
    from barnabas.core.raft import Raft, SnapshotId, SnapshotVoters

    def voters(self: Any, snapshot_id: SnapshotId) -> SnapshotVoters:
        history = self._replica.history
        return SnapshotVoters(history.kraft_version, history.voters_before(snapshot_id.end_offset))

    @contextmanager
    def both() -> Iterator[None]:
        with _patch(Raft, "snapshot_voters", voters), _patch(Story, "snapshot_at_log_end", True):
            yield

    return both()


def answer_before_fsync() -> AbstractContextManager[Any]:
    """What is appended counts, on disk or not."""

    @contextmanager
    def both() -> Iterator[None]:
        flushed = property(lambda self: self.log.end_offset)
        with _patch(Replica, "is_log_flushed", property(lambda self: True)), _patch(Replica, "flushed_offset", flushed):
            append = leading.append

            def count_at_once(self: Replica, *arguments: Any) -> int:
                offset = append(self, *arguments)
                if isinstance(self.state, state.Leader):
                    leading.count_own_log(self, self.state)
                return offset

            with _patch(leading, "append", count_at_once):
                yield

    return both()


def voter_change_before_the_former_is_committed() -> AbstractContextManager[Any]:
    return _patch(changing, "_may_change", lambda replica, leader, now_ms: None)


def pre_vote_that_raises_the_epoch() -> AbstractContextManager[Any]:
    become = Replica.become_prospective

    def eager(self: Replica, now_ms: int) -> None:
        become(self, now_ms)
        if isinstance(self.state, state.Prospective):
            self.state.epoch += 1
            self._persist()

    return _patch(Replica, "become_prospective", eager)


def leader_that_ignores_check_quorum() -> AbstractContextManager[Any]:
    return _patch(decide, "is_sole_voter", lambda leader: True)


def high_watermark_that_goes_back() -> AbstractContextManager[Any]:
    """A follower takes the leader's word, whatever it knew before."""

    def believe(self: Replica, offset: int) -> bool:
        self.high_watermark = self.effects.high_watermark = offset
        return True

    def update(self: Replica, leader: state.Leader) -> None:
        offset = decide.committed_offset(leader)
        if offset is not None and offset != leader.high_watermark:
            leader.high_watermark = offset
            self.advance_high_watermark(offset)

    @contextmanager
    def both() -> Iterator[None]:
        with _patch(Replica, "advance_high_watermark", believe), _patch(leading, "update_high_watermark", update):
            yield

    return both()


def follower_that_truncates_below_its_high_watermark() -> AbstractContextManager[Any]:
    """To make up for it a leader finds that logs part one batch too early."""
    compare = log.compare_follower

    def part_early(own: Any, offset: int, epoch: int) -> Any:
        found = compare(own, offset, epoch)
        if found is None and offset > own.start_offset and offset % 7 == 3:
            batches = own.boundaries(offset - 1, offset)
            if batches and batches[-1].base_offset > own.start_offset and batches[-1].epoch == epoch:
                return log.EpochEnd(epoch, batches[-1].base_offset)
        return found

    def obey(self: Replica, diverging: log.EpochEnd) -> bool:
        self.truncate(log.truncation_offset(self.log, diverging))
        return True

    @contextmanager
    def both() -> Iterator[None]:
        with _patch(leading, "compare_follower", part_early), _patch(following, "truncate", obey):
            yield

    return both()


@dataclass(frozen=True)
class Catch:
    seed: int
    how: str


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        vote_not_persisted,
        stale_epoch_accepted,
        older_epoch_committed_by_counting,
        snapshot_past_the_commit,
        answer_before_fsync,
        voter_change_before_the_former_is_committed,
        pre_vote_that_raises_the_epoch,
        leader_that_ignores_check_quorum,
        high_watermark_that_goes_back,
        follower_that_truncates_below_its_high_watermark,
    )
}


def catch(name: str, seeds: range) -> Catch | None:
    """The first of these seeds in which the mutant is caught."""
    with MUTANTS[name]():
        for seed in seeds:
            try:
                Story(seed).run()
            except AssertionError as error:
                return Catch(seed, str(error).splitlines()[0])
    return None


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS_MAX
    escaped = 0
    for name in MUTANTS:
        started = time.monotonic()
        caught = catch(name, range(count))
        spent_s = time.monotonic() - started
        if caught is None:
            escaped += 1
            print(f"{name}: not caught in {count} seeds ({spent_s:.0f} s)", flush=True)
        else:
            print(f"{name}: caught by seed {caught.seed} ({spent_s:.1f} s): {caught.how}", flush=True)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
