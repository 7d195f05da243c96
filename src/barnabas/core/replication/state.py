"""A leader's view of the replicas of its partition, and the high watermark that follows from it.

Theory. A record is committed when every in-sync replica has it, so the high watermark is the smallest log end offset
among the in-sync replicas. Consumers read below it and `acks=-1` waits for it. It never goes back while this node
holds the log: a follower that falls behind leaves the in-sync replicas, it does not take commitments back.

Legal transitions
- `lead`: a new leader epoch. What followers had before is forgotten until they fetch again (`UNKNOWN_END_OFFSET`), so
  nothing is committed on their behalf by hearsay. The high watermark stays.
- `set_in_sync`: the controller has committed another set of in-sync replicas. Without a follower that lagged the high
  watermark may advance.
- `appended`: the own log has grown.
- `follower_at`: a follower asked for an offset, so it has everything below it.
Each of the last three answers whether the high watermark advanced.
"""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN_END_OFFSET = -1


class LeaderState:
    __slots__ = ("_end_offset", "_followers", "_node_id", "high_watermark", "in_sync", "is_alone", "leader_epoch")

    def __init__(self, node_id: int, leader_epoch: int, in_sync: Iterable[int], end_offset: int, high_watermark: int):
        self._node_id = node_id
        self.high_watermark = high_watermark
        self.lead(leader_epoch, in_sync, end_offset)

    def lead(self, leader_epoch: int, in_sync: Iterable[int], end_offset: int) -> bool:
        self.leader_epoch = leader_epoch
        self._end_offset = end_offset
        self._followers: dict[int, int] = {}
        return self.set_in_sync(in_sync)

    def set_in_sync(self, in_sync: Iterable[int]) -> bool:
        self.in_sync = tuple(in_sync)
        self.is_alone = self.in_sync == (self._node_id,)
        return self._advance()

    def appended(self, end_offset: int) -> bool:
        self._end_offset = end_offset
        if self.is_alone:
            self.high_watermark = end_offset
            return True
        return self._advance()

    def follower_at(self, replica_id: int, end_offset: int) -> bool:
        self._followers[replica_id] = end_offset
        return self._advance()

    def end_offset_of(self, replica_id: int) -> int:
        if replica_id == self._node_id:
            return self._end_offset
        return self._followers.get(replica_id, UNKNOWN_END_OFFSET)

    def _advance(self) -> bool:
        committed = min((self.end_offset_of(replica) for replica in self.in_sync), default=UNKNOWN_END_OFFSET)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True
