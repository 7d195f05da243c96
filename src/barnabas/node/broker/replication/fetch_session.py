"""The follower's side of an incremental fetch session: a request names only what has changed since the last one.

none    -> a request for everything, epoch 0 -> the answer names a session -> session, epoch 1
                                             -> it names none: the next request is for everything again
session -> what has changed and what is forgotten, epochs 1, 2, ... 2^31-1, 1
        -> an error of the session, or no answer at all -> none
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from barnabas.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from barnabas.wire.uuids import Uuid

NO_SESSION = 0
FIRST_EPOCH = 0
MAX_EPOCH = 2**31 - 1

PartitionKey: TypeAlias = tuple[Uuid, int]


class Position(NamedTuple):
    """From where a follower asks on, in the words of its request."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchSessionRequest(NamedTuple):
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FollowerSession:
    def __init__(self, partition_max_bytes: int) -> None:
        self._partition_max_bytes = partition_max_bytes
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self.sent: dict[PartitionKey, Position] = {}

    def reset(self) -> None:
        """The next request is for everything. What was sent so far is not answered any more."""
        self._id, self._epoch = NO_SESSION, FIRST_EPOCH

    def request(
        self,
        wanted: Mapping[PartitionKey, object],
        changed: Iterable[PartitionKey],
        position_of: Callable[[PartitionKey], Position],
    ) -> FetchSessionRequest:
        """`wanted` are all partitions that are to be fetched, `changed` those whose position may be another now."""
        is_full = self._id == NO_SESSION
        forgotten: list[PartitionKey] = []
        if is_full:
            self.sent = {}
            changed = wanted
        asked: list[tuple[PartitionKey, Position]] = []
        for key in changed:
            if key not in wanted:
                if self.sent.pop(key, None) is not None:
                    forgotten.append(key)
                continue
            position = position_of(key)
            if self.sent.get(key) != position:
                self.sent[key] = position
                asked.append((key, position))
        session_id, epoch = self._id, self._epoch
        return FetchSessionRequest(session_id, epoch, self._topics(asked), _forgotten(forgotten))

    def answered(self, error_code: int, session_id: int) -> bool:
        """Whether the answer counts."""
        if error_code:
            self.reset()
            return False
        if session_id == NO_SESSION:
            self.reset()
            return True
        self._epoch = 1 if session_id != self._id or self._epoch == MAX_EPOCH else self._epoch + 1
        self._id = session_id
        return True

    def _topics(self, asked: Iterable[tuple[PartitionKey, Position]]) -> list[FetchTopic]:
        topics: dict[Uuid, FetchTopic] = {}
        for (topic_id, index), position in asked:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return list(topics.values())


def _forgotten(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[Uuid, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())
