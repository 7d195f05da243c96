"""Replication with one rule broken each: the judges must catch every one of them, or they watch for nothing.

`python -m tests.support.replication.mutants [seeds]` tells for each mutant which seed caught it, and how.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from barnabas.core.controller import isr, liveness, registration
from barnabas.core.replication.state import FollowerState, LeaderState
from barnabas.node.broker import partition as partitions
from barnabas.node.broker.partition import Partition, PartitionRead
from barnabas.node.broker.waiting import PendingAcknowledgement
from barnabas.wire.errors import ErrorCode
from tests.support.replication.story import LostTail, Story

SEEDS_MAX = 2000


def _patch(*changes: tuple[Any, str, Any]) -> AbstractContextManager[Any]:
    @contextmanager
    def all_of_them() -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, value in changes:
                stack.enter_context(mock.patch.object(target, name, value))
            yield

    return all_of_them()


def acknowledged_before_the_high_watermark() -> AbstractContextManager[Any]:
    """What is in the leader's log is acknowledged."""

    def hasty(self: PendingAcknowledgement) -> None:
        self._decide(ErrorCode.NONE)

    return _patch((PendingAcknowledgement, "look", hasty))


def truncated_to_the_high_watermark() -> AbstractContextManager[Any]:
    """A follower of a new leader cuts its log at the high watermark it knows of."""
    follow = Partition._follow

    def rash(self: Partition, committed: Any) -> None:
        is_new = committed.leader_epoch != self.leader_epoch
        follow(self, committed)
        log: Any = self.log
        if is_new and isinstance(self.replication, FollowerState):
            log.cut(self.high_watermark)
            self._cut(self.high_watermark)

    return _patch((Partition, "_follow", rash))


def in_sync_too_early() -> AbstractContextManager[Any]:
    """A follower joins the in-sync replicas as soon as it fetches."""

    def trusting(self: LeaderState, replica: int) -> bool:
        return self._is_eligible(replica, self._followers[replica])

    return _patch((LeaderState, "may_join", trusting))


def stale_leader_epoch_accepted() -> AbstractContextManager[Any]:
    """Neither leader nor follower looks at the leader epoch of the other, nor the controller at that of a leader."""

    def present(self: Partition, leader_epoch: int) -> Any:
        assert isinstance(self.replication, FollowerState)
        return self.replication

    def follows(self: Partition, leader_epoch: int) -> bool:
        return isinstance(self.replication, FollowerState)

    return _patch(
        (partitions, "leader_epoch_error", lambda ours, theirs: ErrorCode.NONE),
        (Partition, "_require_following", present),
        (Partition, "follows_in", follows),
        (isr, "_check", lambda *_: None),
    )


def follower_of_an_old_broker_epoch_counted() -> AbstractContextManager[Any]:
    """Who fetches need not be the process that is registered."""

    def known(self: Any, replica: int, follower: Any) -> bool:
        return self._eligible_epoch(replica) is not None

    def registered(image: Any, partition: Any, member: Any) -> bool:
        broker = image.brokers.get(member.broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def any_follower(self: Partition, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> ErrorCode:
        return self.availability_error(current_leader_epoch)

    return _patch(
        (LeaderState, "_is_eligible", known),
        (isr, "_is_eligible", registered),
        (Partition, "replica_error", any_follower),
    )


def served_past_the_high_watermark() -> AbstractContextManager[Any]:
    """Consumers read what the leader has."""

    def generous(self: Partition, fetch: Any, max_bytes: int, min_one_batch: bool, *_: Any) -> PartitionRead:
        return self._read_as_replica(fetch, max_bytes, min_one_batch, 1 << 30)

    return _patch((Partition, "_read", generous))


def eligible_after_an_unclean_stop() -> AbstractContextManager[Any]:
    """A broker that may have lost the end of its log stays eligible to lead."""
    return _patch((registration, "stop_uncleanly", liveness.leave_isr))


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    mutant.__name__: mutant
    for mutant in (
        acknowledged_before_the_high_watermark,
        truncated_to_the_high_watermark,
        in_sync_too_early,
        stale_leader_epoch_accepted,
        follower_of_an_old_broker_epoch_counted,
        served_past_the_high_watermark,
        eligible_after_an_unclean_stop,
    )
}


# The kind of story that catches a mutant for which the others would need thousands of seeds.
STORY_OF: dict[str, type[Story]] = {"follower_of_an_old_broker_epoch_counted": LostTail}


def catch(name: str, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The seed that caught the mutant, and how; None if none did."""
    with MUTANTS[name]():
        for seed in seeds:
            try:
                STORY_OF.get(name, Story)(seed).run()
            except AssertionError as error:
                return seed, str(error).partition("\n")[0]
    return None


def main() -> int:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS_MAX
    escaped = 0
    for name in MUTANTS:
        started = time.monotonic()
        caught = catch(name, range(seeds))
        escaped += caught is None
        took_s = time.monotonic() - started
        print(f"{name}: {'ESCAPED' if caught is None else caught[1]} ({took_s:.1f} s)", flush=True)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
