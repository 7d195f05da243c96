"""What a replica knows of its partition in each of the two roles, and the high watermark that follows from it.

Theory. A record is committed when every in-sync replica has it, so the high watermark is the smallest log end offset
among the in-sync replicas. Consumers read below it and `acks=-1` waits for it. It never goes back while this node
holds the log: a follower that falls behind leaves the in-sync replicas, it does not take commitments back.

Who is in sync is decided by the controller; the leader proposes. Until a proposal is answered the leader counts
everybody who may be in sync (`maximal`): who is proposed to join counts already, who is proposed to leave counts still.
So whichever of the two sets the controller has committed, nothing is committed that one of its members lacks. While
fewer than the minimum are in sync, the high watermark stands still. It also waits for a follower that is about to join.

A follower joins when it has everything that is committed and everything up to the start of this leader's epoch, and
asks in the registration that the metadata has of it: a process that was replaced may have lost the end of its log. It
leaves when it has not had everything for `lag_max_ms`.

A follower does not compute the high watermark: it is the leader's as it was last told, as far as the own log reaches.

Legal transitions of a leader
- `lead`: a new leader epoch. What followers had before is forgotten until they fetch again (`UNKNOWN_END_OFFSET`), so
  nothing is committed on their behalf by hearsay. The high watermark stays, a proposal is dropped.
- `commit`: the controller has committed another set of in-sync replicas or other replicas. Older news than is known
  changes nothing. Newer news drops the proposal; without a follower that lagged the high watermark may advance.
- `appended`: the own log has grown.
- `fetched`: a follower asked for an offset, so it has everything below it.
- `review`: other brokers are in service, or time has passed.
Each of the last four answers whether the high watermark advanced.
- `expand`, `shrink`: nothing proposed -> proposed, if somebody is to join or to leave.
- `answered`: proposed -> nothing proposed, proposed again, or proposed until newer metadata comes (`decide.reaction`).

Legal transitions of a follower
- `follow`: a leader epoch, the same leader's or another's. The high watermark stays.
- `told`: the leader has answered with its own high watermark; the answer is whether ours advanced. A leader that is
  behind us takes nothing back.
- `truncated`: the own log was cut where the leader's differs; the high watermark is not above its end.
A replica goes from one role to the other with the high watermark that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.core.replication.decide import Reaction, reaction
from barnabas.wire.errors import ErrorCode

UNKNOWN_END_OFFSET = -1
ANY_BROKER_EPOCH = -1  # of a follower that does not say in which registration it asks
NEVER_MS = -(1 << 62)
LAG_MAX_MS = 30_000  # `replica.lag.time.max.ms`


class Committed(NamedTuple):
    """A partition as the controller has committed it."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Proposal(NamedTuple):
    """Other in-sync replicas, each with the broker epoch in which the leader knows it."""

    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[tuple[int, int], ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(replica for replica, _ in self.in_sync)


class Follower:
    """What the leader knows of one follower."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end_offset", "fetched_ms", "leader_end_offset")

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN_END_OFFSET
        self.broker_epoch = ANY_BROKER_EPOCH
        self.caught_up_ms = caught_up_ms  # when it last had everything
        self.fetched_ms = NEVER_MS
        self.leader_end_offset = UNKNOWN_END_OFFSET  # the leader's log end at its last fetch

    def fetched(self, offset: int, leader_end_offset: int, broker_epoch: int, now_ms: int) -> None:
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.fetched_ms != NEVER_MS and offset >= self.leader_end_offset:
            # It has what there was when it asked before, so it had everything then.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset, self.broker_epoch = offset, broker_epoch
        self.fetched_ms, self.leader_end_offset = now_ms, leader_end_offset


class LeaderState:
    __slots__ = (
        "_eligible_epoch",
        "_end_offset",
        "_followers",
        "_maximal",
        "_node_id",
        "epoch_start_offset",
        "high_watermark",
        "in_sync",
        "is_alone",
        "lag_max_ms",
        "leader_epoch",
        "minimum",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    def __init__(
        self,
        node_id: int,
        committed: Committed,
        end_offset: int,
        high_watermark: int,
        *,
        now_ms: int = 0,
        min_in_sync: int = 1,
        lag_max_ms: int = LAG_MAX_MS,
        eligible_epoch: Callable[[int], int | None] = lambda replica: ANY_BROKER_EPOCH,
    ) -> None:
        """`eligible_epoch`: in which epoch a broker is registered, None while it may not be in sync."""
        self._node_id = node_id
        self._eligible_epoch = eligible_epoch
        self.lag_max_ms = lag_max_ms
        self.high_watermark = high_watermark
        self.minimum = min_in_sync
        self.lead(committed, end_offset, now_ms)

    # What the controller says

    def lead(self, committed: Committed, end_offset: int, now_ms: int) -> bool:
        self._end_offset = self.epoch_start_offset = end_offset
        self._followers: dict[int, Follower] = {}
        return self._adopt(committed, now_ms)

    def commit(self, committed: Committed, now_ms: int) -> bool:
        if committed.partition_epoch < self.partition_epoch:
            return False
        if committed.partition_epoch == self.partition_epoch and committed.in_sync == self.in_sync:
            return False
        return self._adopt(committed, now_ms)

    def require(self, min_in_sync: int, now_ms: int) -> bool:
        """`min.insync.replicas` is another one now."""
        self.minimum = min_in_sync
        return self._advance(now_ms)

    def review(self, now_ms: int) -> bool:
        """Whoever was about to join may be out of service by now, or have lagged for too long: nobody waits for it."""
        return self._advance(now_ms)

    def _adopt(self, committed: Committed, now_ms: int) -> bool:
        self.leader_epoch, self.partition_epoch, self.replicas, self.in_sync = committed
        self.proposal: Proposal | None = None
        known, self._followers = self._followers, {}
        for replica in self.replicas:
            if replica != self._node_id:
                since_ms = now_ms if replica in self.in_sync else NEVER_MS
                self._followers[replica] = known.get(replica) or Follower(since_ms)
        self.is_alone = not self._followers and self.in_sync == (self._node_id,)
        self._maximal = frozenset(self.in_sync)
        return self._advance(now_ms)

    # The high watermark

    @property
    def has_enough(self) -> bool:
        """A partition cannot have more in-sync replicas than replicas, so that many are enough."""
        return len(self.in_sync) >= min(self.minimum, len(self._followers) + 1)

    @property
    def maximal(self) -> frozenset[int]:
        return self._maximal

    def appended(self, end_offset: int, now_ms: int) -> bool:
        if self.is_alone:
            self._end_offset = self.high_watermark = end_offset
            return True
        for follower in self._followers.values():
            if follower.end_offset >= self._end_offset:
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)  # it had everything until now
        self._end_offset = end_offset
        return self._advance(now_ms)

    def fetched(self, replica: int, offset: int, broker_epoch: int, now_ms: int) -> bool:
        self._followers[replica].fetched(offset, self._end_offset, broker_epoch, now_ms)
        return self._advance(now_ms)

    def follows(self, replica: int) -> bool:
        return replica in self._followers

    def follower_end_offset(self, replica: int) -> int:
        follower = self._followers.get(replica)
        return UNKNOWN_END_OFFSET if follower is None else follower.end_offset

    def _advance(self, now_ms: int) -> bool:
        if not self.has_enough or self._node_id not in self.in_sync:
            return False
        committed = self._end_offset
        for replica, follower in self._followers.items():
            if follower.end_offset < committed and (
                replica in self._maximal or self._is_about_to_join(replica, follower, now_ms)
            ):
                committed = follower.end_offset
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def _is_about_to_join(self, replica: int, follower: Follower, now_ms: int) -> bool:
        return self._is_caught_up(follower, now_ms) and self._is_eligible(replica, follower)

    def _is_caught_up(self, follower: Follower, now_ms: int) -> bool:
        return follower.end_offset == self._end_offset or now_ms - follower.caught_up_ms <= self.lag_max_ms

    # In-sync replicas

    def _is_eligible(self, replica: int, follower: Follower) -> bool:
        epoch = self._eligible_epoch(replica)
        return epoch is not None and follower.broker_epoch in (ANY_BROKER_EPOCH, epoch)

    def may_join(self, replica: int) -> bool:
        follower = self._followers[replica]
        has_everything = follower.end_offset >= max(self.high_watermark, self.epoch_start_offset)
        return has_everything and self._is_eligible(replica, follower)

    def expand(self, replica: int) -> Proposal | None:
        """After a fetch of this follower."""
        if self.proposal is not None or replica in self._maximal or not self.may_join(replica):
            return None
        return self._propose((*self.in_sync, replica))

    def shrink(self, now_ms: int) -> Proposal | None:
        """From time to time."""
        if self.proposal is not None:
            return None
        lagging = {
            replica
            for replica, follower in self._followers.items()
            if replica in self._maximal and not self._is_caught_up(follower, now_ms)
        }
        return self._propose(tuple(each for each in self.in_sync if each not in lagging)) if lagging else None

    def _propose(self, in_sync: tuple[int, ...]) -> Proposal:
        own_epoch = self._eligible_epoch(self._node_id)
        epochs = {self._node_id: ANY_BROKER_EPOCH if own_epoch is None else own_epoch}
        epochs |= {replica: follower.broker_epoch for replica, follower in self._followers.items()}
        members = tuple((replica, epochs[replica]) for replica in in_sync)
        self.proposal = Proposal(self.leader_epoch, self.partition_epoch, members)
        self._maximal = frozenset((*self.in_sync, *in_sync))
        return self.proposal

    def answered(self, proposal: Proposal, error: ErrorCode) -> Reaction:
        """The controller has refused it. What it has accepted comes by `commit`."""
        if proposal is not self.proposal:
            return Reaction.NONE
        react = reaction(error)
        if react is Reaction.DROP:
            self.proposal = None
            self._maximal = frozenset(self.in_sync)
        return react


class FollowerState:
    __slots__ = ("high_watermark", "in_sync", "leader_epoch", "replicas")

    is_alone = False

    def __init__(self, committed: Committed, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self.follow(committed)

    def follow(self, committed: Committed) -> None:
        self.leader_epoch = committed.leader_epoch
        self.in_sync = committed.in_sync
        self.replicas = committed.replicas

    def follow_high_watermark(self, leader_high_watermark: int, end_offset: int) -> bool:
        high_watermark = min(leader_high_watermark, end_offset)
        if high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        return True

    def truncated(self, end_offset: int) -> None:
        self.high_watermark = min(self.high_watermark, end_offset)
