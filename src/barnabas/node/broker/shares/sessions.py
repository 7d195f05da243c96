"""Share sessions: which partitions a member fetches, so that it need not name them again, and an epoch per request.

A member has one session with each broker. It begins with epoch 0 and ends with -1, or when its connection is gone; then
whatever the member has taken is free again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.node.requests import Session
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2_147_483_647

SessionKey = tuple[str, str]


@dataclass(slots=True)
class ShareSession:
    group_id: str
    member_id: str
    owner: Session
    epoch: int = 1
    partitions: dict[tuple[Uuid, int], None] = field(default_factory=dict)
    turn: int = 0

    def in_turn(self) -> list[tuple[Uuid, int]]:
        """Another partition is the first in each fetch: one that always has records must not starve the others."""
        listed = list(self.partitions)
        first = self.turn % max(len(listed), 1)
        self.turn += 1
        return listed[first:] + listed[:first]


class ShareSessions:
    def __init__(self, most: Callable[[], int], on_ended: Callable[[str, str], None]) -> None:
        """`on_ended` is told of the group and the member whose connection has gone."""
        self._most = most
        self._on_ended = on_ended
        self._sessions: dict[SessionKey, ShareSession] = {}

    def open(self, group_id: str, member_id: str, owner: Session) -> ShareSession:
        key = (group_id, member_id)
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._most():
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(group_id, member_id, owner)
        former = owner.on_closed
        if not isinstance(former, _OwnerGone):
            owner.on_closed = former = _OwnerGone(self, former)
        former.keys.add(key)
        return session

    def proceed(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session of a request with this epoch; the next must have the one behind it."""
        session = self.find(group_id, member_id)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def find(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def close(self, group_id: str, member_id: str) -> None:
        self._sessions.pop((group_id, member_id), None)

    def has_group(self, group_id: str) -> bool:
        return any(key[0] == group_id for key in self._sessions)

    def owner_gone(self, keys: set[SessionKey], owner: Session) -> None:
        for key in keys:
            session = self._sessions.get(key)
            if session is not None and session.owner is owner:
                del self._sessions[key]
                self._on_ended(*key)


class _OwnerGone:
    def __init__(self, sessions: ShareSessions, former: Callable[[Session], None] | None) -> None:
        self._sessions = sessions
        self._former = former
        self.keys: set[SessionKey] = set()

    def __call__(self, owner: Session) -> None:
        if self._former is not None:
            self._former(owner)
        self._sessions.owner_gone(self.keys, owner)
