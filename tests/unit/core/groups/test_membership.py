"""Joining, staying and leaving: exact records and answers."""

from __future__ import annotations

import struct

import pytest

from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.groups.rebalance import SYNC_MIN_MS
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.state import Phase, topics_of
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas.wire.records.groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata

from .stage import NEW, NOT_COORDINATOR, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def group_value(**fields: object) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group="g"), GroupMetadataValue(**fields), 3)  # type: ignore[arg-type]


def test_a_member_with_a_rebalance_timeout_of_zero_has_time_to_sync(stage: Stage) -> None:
    member_id = stage.join(rebalance_timeout_ms=0).result().member_id
    stage.pass_ms(SYNC_MIN_MS - 1)
    assert stage.sync(member_id, 1, {member_id: b"everything"}).result().error_code == 0


def test_a_new_group_is_written_before_its_first_member_is_answered(stage: Stage) -> None:
    stage.auto_commit = False
    answer = stage.join(caller=NEW)
    assert not answer.is_done
    assert stage.shard.committed_group("g") is None
    stage.commit_log()
    assert answer.result() == JoinGroupResponse(member_id="client-1", error_code=ErrorCode.MEMBER_ID_REQUIRED)
    empty = {"protocol": None, "leader": None, "current_state_timestamp": 1_000}
    assert stage.records() == [group_value(**empty)]
    assert stage.group().pending == {"client-1"}


def test_one_member_joins_and_is_assigned_everything(stage: Stage) -> None:
    answer = stage.join()
    member = JoinGroupResponseMember(member_id="client-1", metadata=b"all")
    assert answer.result() == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="client-1",
        member_id="client-1",
        members=[member],
    )
    stage.now_ms = 2_000
    synced = stage.sync("client-1", 1, {"client-1": b"everything", "stranger": b"x"})
    assert synced.result() == SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=b"everything"
    )
    assert stage.records()[-1] == group_value(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="client-1",
        current_state_timestamp=1_000,
        members=[
            MemberMetadata(
                member_id="client-1",
                client_id="client",
                client_host="/host",
                rebalance_timeout=30_000,
                session_timeout=10_000,
                subscription=b"all",
                assignment=b"everything",
            )
        ],
    )
    assert stage.group().phase is Phase.STABLE


def test_the_last_member_leaves_an_empty_group_behind(stage: Stage) -> None:
    anna = stage.settle()
    assert stage.leave(anna).result().members[0].error_code == 0
    assert stage.group().phase is Phase.EMPTY
    last = stage.records()[-1]
    empty = {"protocol_type": "consumer", "generation": 2, "protocol": None, "leader": None}
    assert last == group_value(**empty, current_state_timestamp=1_000)


def test_a_group_waits_for_more_members_at_first_but_not_for_ever() -> None:
    stage = Stage(GroupSettings(initial_rebalance_delay_ms=3_000))
    first = stage.join(rebalance_timeout_ms=7_000)
    stage.pass_ms(2_900)
    second = stage.join()
    stage.pass_ms(3_000)
    third = stage.join()
    stage.pass_ms(1_000)
    assert not first.is_done
    stage.pass_ms(200)
    assert {each.result().generation_id for each in (first, second, third)} == {1}


def test_members_who_do_not_join_again_in_time_are_out(stage: Stage) -> None:
    anna = stage.settle()
    waiting = stage.join()
    for _ in range(6):
        assert stage.heartbeat(anna, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert not waiting.is_done
        stage.pass_ms(5_000)
    joined = waiting.result()
    assert joined.generation_id == 2
    assert joined.leader == joined.member_id
    assert stage.heartbeat(anna, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeats_is_out(stage: Stage) -> None:
    anna, bert = stage.settle_two()
    stage.pass_ms(6_000)
    assert stage.heartbeat(anna, 2) is ErrorCode.NONE
    stage.pass_ms(6_000)
    assert bert not in stage.group().members
    assert stage.heartbeat(anna, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.join(anna).result().generation_id == 3


def test_members_who_never_fetch_their_assignment_are_out(stage: Stage) -> None:
    anna = stage.settle()
    waiting = stage.join()
    stage.join(anna)
    bert = waiting.result().member_id
    stage.sync(anna, 2, {anna: b"half", bert: b"rest"})
    for _ in range(6):
        assert stage.heartbeat(anna, 2) is ErrorCode.NONE
        assert stage.heartbeat(bert, 2) is ErrorCode.NONE
        stage.pass_ms(5_000)
    assert list(stage.group().members) == [anna]
    assert stage.group().phase is Phase.PREPARING_REBALANCE


def test_an_assignment_that_cannot_be_written_does_not_count(stage: Stage) -> None:
    anna, bert = stage.settle_two()
    waiting = stage.join(anna)
    stage.join(bert)
    assert waiting.result().generation_id == 3
    follower = stage.sync(bert, 3)
    stage.failing = True
    leader = stage.sync(anna, 3, {anna: b"other", bert: b"wise"})
    assert leader.result().error_code == follower.result().error_code == ErrorCode.NOT_COORDINATOR
    assert stage.group().phase is Phase.PREPARING_REBALANCE
    stage.failing = False
    rejoined = stage.join(anna)
    stage.join(bert)
    assert rejoined.result().generation_id == 4


def test_a_group_that_cannot_be_written_does_not_exist(stage: Stage) -> None:
    stage.failing = True
    assert stage.join().result().error_code == ErrorCode.NOT_COORDINATOR
    assert "g" not in stage.shard.groups
    stage.pass_ms(1_000_000)
    stage.failing = False
    assert stage.join().result().generation_id == 1


def test_an_assignment_is_nobodys_before_it_is_committed(stage: Stage) -> None:
    member_id = stage.join().result().member_id
    stage.auto_commit = False
    synced = stage.sync(member_id, 1, {member_id: b"everything"})
    assert not synced.is_done
    assert stage.group().phase is Phase.COMPLETING_REBALANCE
    stage.commit_log()
    assert synced.result().assignment == b"everything"


def test_somebody_joining_while_an_assignment_is_written_wins(stage: Stage) -> None:
    member_id = stage.join().result().member_id
    stage.auto_commit = False
    synced = stage.sync(member_id, 1, {member_id: b"everything"})
    stage.join()
    assert stage.group().phase is Phase.PREPARING_REBALANCE
    stage.commit_log()
    assert synced.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.group().members[member_id].assignment == b""


def test_a_restart_knows_the_members_and_their_assignments(stage: Stage) -> None:
    anna, bert = stage.settle_two()
    stage.start()
    assert stage.group().phase is Phase.STABLE
    assert stage.heartbeat(anna, 2) is ErrorCode.NONE
    assert stage.sync(bert, 2).result().assignment == b"rest"
    stage.pass_ms(10_000)
    assert list(stage.group().members) == []


def test_losing_the_leadership_answers_those_who_wait(stage: Stage) -> None:
    anna = stage.settle()
    waiting = stage.join()
    stage.runtime.lost(NOT_COORDINATOR)
    assert waiting.result().error_code == ErrorCode.NOT_COORDINATOR
    assert stage.group().members[anna].joining is None


def test_a_static_member_comes_back_under_another_id_without_a_rebalance(stage: Stage) -> None:
    old = stage.join(instance="one").result().member_id
    stage.sync(old, 1, {old: b"everything"}, instance="one")
    back = stage.join(instance="one", caller=NEW).result()
    assert (back.generation_id, back.leader, back.skip_assignment) == (1, back.member_id, True)
    assert stage.records()[-1].value.members[0].member_id == back.member_id  # type: ignore[union-attr]
    assert stage.heartbeat(old, 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat(back.member_id, 1, "one") is ErrorCode.NONE
    stage.start()
    assert stage.sync(back.member_id, 1, instance="one").result().assignment == b"everything"


def test_a_static_member_that_cannot_be_written_stays_the_old_one(stage: Stage) -> None:
    old = stage.join(instance="one").result().member_id
    stage.sync(old, 1, {old: b"everything"}, instance="one")
    stage.failing = True
    assert stage.join(instance="one", caller=NEW).result().error_code == ErrorCode.NOT_COORDINATOR
    assert stage.heartbeat(old, 1, "one") is ErrorCode.NONE
    assert stage.sync(old, 1, instance="one").result().assignment == b"everything"


def test_a_group_takes_no_more_than_its_largest_size() -> None:
    stage = Stage(GroupSettings(initial_rebalance_delay_ms=0, max_size=1))
    anna = stage.settle()
    assert stage.join().result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.heartbeat(anna, 1) is ErrorCode.NONE


def test_a_group_that_has_become_too_large_shrinks_after_a_restart(stage: Stage) -> None:
    anna, bert = stage.settle_two()
    stage.settings = GroupSettings(initial_rebalance_delay_ms=0, max_size=1)
    stage.start()
    assert stage.group().phase is Phase.PREPARING_REBALANCE
    waiting = stage.join(anna)
    assert stage.join(bert).result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    stage.pass_ms(30_000)
    assert waiting.result().generation_id == 3


def test_the_most_liked_protocol_known_to_all_is_chosen(stage: Stage) -> None:
    anna = stage.settle(protocols={"sticky": b"s", "range": b"r"})
    waiting = stage.join(protocols={"other": b"o", "range": b"R"})
    stage.join(anna, protocols={"sticky": b"s", "range": b"r"})
    assert waiting.result().protocol_name == "range"
    refused = stage.join(protocols={"other": b"o"})
    assert refused.result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("subscription", "topics"),
    [
        (struct.pack(">hih1sh2s", 0, 2, 1, b"a", 2, b"bb"), ["a", "bb"]),
        (struct.pack(">hih1s", 3, 1, 1, b"a") + b"anything after", ["a"]),
        (struct.pack(">hi", 0, 0), []),
    ],
)
def test_the_topics_of_a_subscription(subscription: bytes, topics: list[str]) -> None:
    assert topics_of(subscription) == topics


@pytest.mark.parametrize("nonsense", [b"", b"all", struct.pack(">hih", 0, 1, 50), struct.pack(">hi", 0, 2**31 - 1)])
def test_a_subscription_that_is_none_means_every_topic(stage: Stage, nonsense: bytes) -> None:
    stage.settle(protocols={"range": nonsense})
    assert stage.group().subscribes_to("anything")
