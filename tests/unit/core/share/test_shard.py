"""The share coordinator's shard: epochs fence, updates add up, and a replay gives the same."""

from __future__ import annotations

import pytest

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.timers import Timers
from barnabas.core.share.batches import StateBatch
from barnabas.core.share.records import ShareKey
from barnabas.core.share.shard import ShareStateShard
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.share_state import ShareSnapshotValue, ShareUpdateValue
from barnabas.wire.uuids import Uuid

KEY = ShareKey("g", Uuid(b"t" * 16), 0)


class Story:
    def __init__(self) -> None:
        self.records: list[object] = []
        self.shard = self.fresh()

    @staticmethod
    def fresh() -> ShareStateShard:
        return ShareStateShard(Timers(lambda: 0), lambda: 7, lambda key: key.partition < 4, lambda: 3)

    def take(self, decision: Decision[object]) -> object:
        for record in decision.records:
            self.records.append(record)
            self.shard.replay(record, None)
        return decision.response

    def check_replay(self) -> None:
        again = self.fresh()
        for record in self.records:
            again.replay(record, None)  # type: ignore[arg-type]
        assert dict(again.states.items()) == dict(self.shard.states.items())


@pytest.fixture
def story() -> Story:
    told = Story()
    told.take(told.shard.initialize(KEY, 1, 0))
    return told


def test_updates_become_a_snapshot_after_a_while(story: Story) -> None:
    story.take(story.shard.read(KEY, 5))
    for number in range(5):
        batch = StateBatch(number * 10, number * 10 + 4, 2, 1)
        story.take(story.shard.write(KEY, 1, 5, number * 5, 0, [batch]))
        story.check_replay()
    kinds = [type(record.value) for record in story.records]  # type: ignore[attr-defined]
    assert kinds == [ShareSnapshotValue] * 2 + [ShareUpdateValue] * 3 + [ShareSnapshotValue, ShareUpdateValue]
    state = story.shard.states.get(KEY)
    assert state is not None
    assert state.start_offset == 20
    assert state.batches == (StateBatch(20, 24, 2, 1), StateBatch(30, 34, 2, 1), StateBatch(40, 44, 2, 1))


def test_older_leaders_and_states_are_fenced(story: Story) -> None:
    story.take(story.shard.read(KEY, 5))
    story.take(story.shard.initialize(KEY, 3, 9))
    story.take(story.shard.read(KEY, 6))
    for attempt, error in (
        (lambda: story.shard.write(KEY, 3, 5, 9, 0, []), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda: story.shard.read(KEY, 5), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda: story.shard.write(KEY, 2, 6, 9, 0, []), ErrorCode.FENCED_STATE_EPOCH),
        (lambda: story.shard.initialize(KEY, 2, 0), ErrorCode.FENCED_STATE_EPOCH),
        (lambda: story.shard.write(KEY._replace(partition=1), 1, 1, 0, 0, []), ErrorCode.INVALID_REQUEST),
        (lambda: story.shard.read(KEY._replace(partition=-1), 1), ErrorCode.INVALID_REQUEST),
        (lambda: story.shard.initialize(KEY._replace(partition=9), 1, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(KafkaError) as refused:
            attempt()
        assert refused.value.code is error


def test_what_is_deleted_is_gone(story: Story) -> None:
    story.take(story.shard.delete(KEY))
    assert story.shard.summary(KEY) is None
    assert story.shard.delete(KEY).records == []
    story.check_replay()
