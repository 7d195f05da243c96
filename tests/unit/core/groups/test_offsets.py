"""Committed offsets: records, transactions, expiry."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.coordinator.decision import Decision, Marker, Producer
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.groups.records import offset_record
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.shard import EXPIRY_TURN_OFFSETS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.groups import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue

from .stage import Stage

DAY_MS = 86_400_000
NOBODY = Committer("g")
ZOMBIE = Producer(7, 0)
TOMBSTONE = CoordinatorRecord(OffsetCommitKey(group="g", topic="t", partition=0), None)
GROUP_TOMBSTONE = CoordinatorRecord(GroupMetadataKey(group="g"), None)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def subscribe(*topics: str) -> dict[str, bytes]:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return {"range": struct.pack(">hi", 0, len(topics)) + names}


def end(stage: Stage, *, committed: bool) -> None:
    stage.run(lambda _: Decision([], None, marker=Marker(7, 0, 0, committed)))


def in_transaction(stage: Stage, offset: int) -> None:
    commits = [Commit("t", 0, offset)]
    stage.run(lambda shard: shard.commits.commit_in_transaction(NOBODY, commits, ZOMBIE))


def test_an_offset_is_seen_once_it_is_committed(stage: Stage) -> None:
    stage.auto_commit = False
    answer = stage.run(
        lambda s: s.commits.commit(NOBODY, [Commit("t", 0, 5, 2, "so far"), Commit("t", 1, 6, -1, None)])
    )
    assert not answer.is_done
    assert stage.committed() is None
    stable = stage.run(lambda s: Decision([], s.commits.fetch("g", [("t", 0)], stable=True)))
    assert not stable.is_done
    stage.commit_log()
    assert answer.result() == [ErrorCode.NONE, ErrorCode.NONE]
    assert stable.result()[0].committed.offset == 5
    assert stage.records() == [
        CoordinatorRecord(
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(offset=5, leader_epoch=2, metadata="so far", commit_timestamp=1_000),
            3,
        ),
        CoordinatorRecord(
            OffsetCommitKey(group="g", topic="t", partition=1),
            OffsetCommitValue(offset=6, metadata="", commit_timestamp=1_000),
            3,
        ),
    ]


def test_a_commit_that_cannot_be_written_never_happened(stage: Stage) -> None:
    stage.commit(5)
    stage.failing = True
    failed = stage.commit(6)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.NOT_COORDINATOR
    assert stage.committed() == 5
    stage.failing = False
    stage.start()
    assert stage.committed() == 5


def test_a_too_long_remark_spares_the_other_partitions(stage: Stage) -> None:
    commits = [Commit("t", 0, 1, -1, "x" * 4097), Commit("t", 1, 2)]
    answer = stage.run(lambda shard: shard.commits.commit(NOBODY, commits))
    assert answer.result() == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert (stage.committed(0), stage.committed(1)) == (None, 2)


def test_committing_keeps_a_member_alive(stage: Stage) -> None:
    anna = stage.settle()
    for _ in range(3):
        stage.pass_ms(9_000)
        assert stage.commit(1, anna, 1).result() == [ErrorCode.NONE]
    assert anna in stage.group().members


def test_offsets_of_a_transaction_count_when_it_commits(stage: Stage) -> None:
    stage.commit(1)
    in_transaction(stage, 5)
    assert stage.committed() == 1
    (fetched,) = stage.shard.commits.fetch("g", [("t", 0)], stable=True)
    assert fetched.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    end(stage, committed=True)
    assert stage.committed() == 5
    assert not stage.shard.offsets.has_pending("g")


def test_offsets_of_an_aborted_transaction_vanish(stage: Stage) -> None:
    in_transaction(stage, 5)
    end(stage, committed=False)
    assert stage.committed() is None
    assert not stage.shard.offsets.has_pending("g")


def test_the_later_of_two_commits_counts_whenever_the_transaction_ends(stage: Stage) -> None:
    in_transaction(stage, 5)
    stage.commit(9)
    end(stage, committed=True)
    assert stage.committed() == 9


def test_a_marker_that_cannot_be_written_leaves_the_transaction_open(stage: Stage) -> None:
    in_transaction(stage, 5)
    stage.failing = True
    end(stage, committed=True)
    assert stage.committed() is None
    assert ("t", 0) in stage.shard.offsets.pending("g")


def test_what_transactions_of_other_groups_have_pending_costs_nothing(stage: Stage) -> None:
    in_transaction(stage, 5)
    offsets = stage.shard.offsets
    assert list(offsets.pending("g")) == [("t", 0)]
    assert not offsets.pending("another")
    offsets._pending.items = None  # type: ignore[method-assign,assignment]
    assert ("t", 0) in offsets.pending("g")
    assert not offsets.has_pending("another")
    (fetched,) = stage.shard.commits.fetch("another", [("t", 0)], stable=True)
    assert fetched.error is ErrorCode.NONE


def test_groups_without_pending_offsets_are_forgotten(stage: Stage) -> None:
    in_transaction(stage, 5)
    end(stage, committed=False)
    stage.shard.offsets.prune()
    assert not stage.shard.offsets._producers


def test_deleting_a_group_removes_every_trace(stage: Stage) -> None:
    stage.commit(5)
    written = len(stage.records())
    assert stage.run(lambda shard: shard.delete_group("g")).result() is ErrorCode.NONE
    assert stage.records()[written:] == [TOMBSTONE, GROUP_TOMBSTONE]
    assert stage.run(lambda shard: shard.delete_group("g")).result() is ErrorCode.GROUP_ID_NOT_FOUND
    stage.start()
    assert "g" not in stage.shard.groups


def test_offsets_of_deleted_topics_go_with_them(stage: Stage) -> None:
    stage.run(lambda shard: shard.commits.commit(NOBODY, [Commit("t", 0, 1), Commit("u", 0, 2)]))
    stage.run(lambda shard: shard.topics_deleted({"t"}))
    assert stage.records()[-1] == TOMBSTONE
    assert [at for at, _ in stage.shard.offsets.all_committed("g")] == [("u", 0)]


def test_offsets_nobody_used_for_the_retention_time_expire(stage: Stage) -> None:
    stage.commit(5)
    stage.pass_ms(7 * DAY_MS - 600_000)
    assert stage.committed() == 5
    stage.pass_ms(600_000)
    assert stage.committed() is None
    assert stage.records()[-2:] == [TOMBSTONE, GROUP_TOMBSTONE]


def test_many_offsets_are_looked_at_in_turns(stage: Stage) -> None:
    groups = [f"g{number}" for number in range(3)]
    for group in groups:
        commits = [Commit("t", partition, 5) for partition in range(EXPIRY_TURN_OFFSETS - 1)]
        stage.run(lambda shard, group=group, commits=commits: shard.commits.commit(Committer(group), commits))
    stage.now_ms += 8 * DAY_MS
    left = []
    while stage.shard.groups:
        stage.pass_ms(stage.shard.timers.next_delay_ms or 0)
        left.append(list(stage.shard.groups))
    assert left == [groups[1:], groups[2:], []]
    assert stage.shard.timers.next_delay_ms == stage.settings.offsets_retention_check_interval_ms


def test_the_time_begins_when_the_last_member_leaves(stage: Stage) -> None:
    anna = stage.settle(protocols=subscribe("t"))
    stage.commit(5, anna, 1)
    for _ in range(20_000 // 9):
        stage.pass_ms(9_000)
        stage.heartbeat(anna, 1)
    stage.now_ms += 30 * DAY_MS
    stage.run(lambda shard: shard.expire_offsets())
    assert stage.committed() == 5
    stage.settings = GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS)
    stage.leave(anna)
    stage.now_ms += DAY_MS - 1
    stage.run(lambda shard: shard.expire_offsets())
    assert stage.committed() == 5
    stage.now_ms += 1
    stage.run(lambda shard: shard.expire_offsets())
    assert stage.committed() is None


def test_a_stable_group_loses_offsets_of_topics_it_does_not_read(stage: Stage) -> None:
    anna = stage.settle(protocols=subscribe("t"))
    commits = [Commit("t", 0, 1), Commit("former", 0, 2)]
    stage.run(lambda shard: shard.commits.commit(Committer("g", anna, None, 1), commits))
    stage.now_ms += 8 * DAY_MS
    stage.run(lambda shard: shard.expire_offsets())
    assert [at for at, _ in stage.shard.offsets.all_committed("g")] == [("t", 0)]


def test_old_clients_say_themselves_how_long_an_offset_is_kept(stage: Stage) -> None:
    stage.commit(5, retention_ms=1_000)
    assert stage.records()[-1].value_version == 1
    stage.start()
    stage.now_ms += 999
    stage.run(lambda shard: shard.expire_offsets())
    assert stage.committed() == 5
    stage.now_ms += 1
    stage.run(lambda shard: shard.expire_offsets())
    assert stage.committed() is None


def test_pending_offsets_keep_what_they_would_replace(stage: Stage) -> None:
    stage.commit(5)
    in_transaction(stage, 6)
    stage.now_ms += 8 * DAY_MS
    stage.run(lambda shard: shard.expire_offsets())
    assert stage.committed() == 5


@given(
    st.text(max_size=20),
    st.text(max_size=20),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.text(max_size=300),
)
def test_an_offset_packed_by_hand_has_the_bytes_of_the_codec(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str
) -> None:
    value = OffsetCommitValue(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=1_700_000_000_000)
    record = offset_record(group, topic, partition, value)
    assert record.encode() == CoordinatorRecord(*record).encode()
