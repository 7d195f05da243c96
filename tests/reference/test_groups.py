"""Classic groups: the same scenes on Apache Kafka and on our node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest

from .group_stage import Stage


@pytest.fixture
def stage(both: Any) -> Iterator[Stage]:
    with Stage(both) as stage:
        yield stage


def described(stage: Stage, version: int = 5) -> None:
    stage.same("admin", lambda _: DescribeGroupsRequest(groups=[stage.group]), version)


# Finding


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key", ["a-group", ""])
def test_groups_are_found(both: Any, stage: Stage, version: int, key: str) -> None:
    keys = {"key": key} if version < 4 else {"coordinator_keys": [key, "another"]}
    both.same(FindCoordinatorRequest(key_type=0, **keys), version)


@pytest.mark.parametrize("key_type", [3, -1, 100])
def test_keys_of_unknown_types(both: Any, stage: Stage, key_type: int) -> None:
    both.same(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a"]), 5)
    both.same(FindCoordinatorRequest(key_type=key_type, key="a"), 3)


# Joining


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_and_leaves_in_every_version(stage: Stage, version: int) -> None:
    name = stage.join()
    first = stage.same("anna", name, version)
    if first.error_code == 79:
        stage.same("anna", stage.join("anna"), version)
    described(stage)
    sync_version = min(version, 5)
    says = {"protocol_type": None, "protocol_name": None} if sync_version < 5 else {}
    stage.same("anna", stage.sync("anna", 1, {"anna": b"all", "stranger": b"none"}, **says), sync_version)
    described(stage)
    stage.same("anna", stage.heartbeat("anna", 1), min(version, 4))
    if version < 3:
        leaving = lambda ids: LeaveGroupRequest(group_id=stage.group, member_id=ids["anna"])  # noqa: E731
        stage.same("anna", leaving, version)
    else:
        stage.same("anna", stage.leave("anna"), min(version, 5))
    described(stage)


def test_a_second_member_makes_a_new_generation(stage: Stage) -> None:
    stage.settle_two()
    described(stage)
    stage.same("anna", stage.sync("anna", 2), 5)
    stage.same("bert", stage.sync("bert", 2), 5)
    stage.same("bert", stage.leave("bert"), 5)
    stage.same("anna", stage.heartbeat("anna", 2), 4)
    described(stage)
    stage.same("anna", stage.join("anna"), 9)
    stage.same("anna", stage.sync("anna", 3, {"anna": b"all"}), 5)
    described(stage)


def test_a_follower_that_joins_again_unchanged_disturbs_nobody(stage: Stage) -> None:
    stage.settle_two()
    stage.same("bert", stage.join("bert"), 9)
    stage.same("anna", stage.heartbeat("anna", 2), 4)
    stage.send("bert", stage.join("bert", topics=("other",)), 9)
    stage.until_rebalancing("anna", 2)
    stage.same("anna", stage.join("anna"), 9)
    stage.receive("bert", JoinGroupRequest, 9)
    stage.same("bert", stage.join("bert", topics=("other",)), 9)
    stage.same("anna", stage.join("anna"), 9)


def test_the_leader_may_ask_for_a_rebalance(stage: Stage) -> None:
    stage.settle_two()
    stage.send("anna", stage.join("anna"), 9)
    stage.until_rebalancing("bert", 2)
    stage.same("bert", stage.sync("bert", 2), 5)
    stage.same("bert", stage.join("bert"), 9)
    stage.receive("anna", JoinGroupRequest, 9)


def test_members_waiting_for_the_assignment_are_sent_back_when_somebody_joins(stage: Stage) -> None:
    stage.settle("anna")
    stage.same("bert", stage.join(), 9)
    stage.send("bert", stage.join("bert"), 9)
    stage.until_rebalancing("anna", 1)
    stage.same("anna", stage.join("anna"), 9)
    stage.receive("bert", JoinGroupRequest, 9)
    stage.send("bert", stage.sync("bert", 2), 5)
    stage.same("carl", stage.join(), 9)
    stage.send("carl", stage.join("carl"), 9)
    stage.receive("bert", SyncGroupRequest, 5)
    described(stage)


def test_the_protocol_all_know_and_most_want_is_chosen(stage: Stage) -> None:
    anna, bert = ("sticky", "range", "own"), ("range", "sticky", "other")
    stage.same("anna", stage.join(protocols=anna), 9)
    stage.same("anna", stage.join("anna", protocols=anna), 9)
    stage.same("anna", stage.sync("anna", 1, {"anna": b""}, protocol_name="sticky"), 5)
    stage.same("bert", stage.join(protocols=("neither",)), 9)
    stage.same("bert", stage.join(protocols=bert), 9)
    stage.send("bert", stage.join("bert", protocols=bert), 9)
    stage.until_rebalancing("anna", 1)
    stage.same("anna", stage.join("anna", protocols=("range",)), 9)
    stage.receive("bert", JoinGroupRequest, 9)
    described(stage)


@pytest.mark.parametrize("version", [0, 3, 4, 6, 7, 9])
def test_bad_joins(stage: Stage, version: int) -> None:
    for bad in (
        stage.join("nobody"),
        stage.join(session_timeout_ms=5_999),
        stage.join(session_timeout_ms=1_800_001),
        stage.join(session_timeout_ms=-1),
        stage.join(group=""),
        stage.join(protocols=()),
        stage.join(protocol_type=""),
    ):
        stage.same("anna", bad, version)
    stage.settle("bert")
    for bad in (
        stage.join(protocols=("unknown",)),
        stage.join("bert", protocols=("unknown",)),
        stage.join(protocol_type="connect"),
        stage.join("nobody"),
    ):
        stage.same("anna", bad, version)
    described(stage)


@pytest.mark.parametrize("version", [3, 5])
def test_bad_syncs(stage: Stage, version: int) -> None:
    says = {"protocol_type": None, "protocol_name": None} if version < 5 else {}
    stage.same("anna", stage.sync("nobody", 1, **says), version)
    stage.settle("anna")
    stage.same("anna", stage.sync("nobody", 1, **says), version)
    stage.same("anna", stage.sync("anna", 0, **says), version)
    stage.same("anna", stage.sync("anna", 2, **says), version)
    stage.same("anna", stage.sync("anna", 1, instance="unknown", **says), version)
    if version == 5:
        stage.same("anna", stage.sync("anna", 1, protocol_type="connect"), 5)
        stage.same("anna", stage.sync("anna", 1, protocol_name="sticky"), 5)
        stage.same("anna", stage.sync("anna", 1, protocol_name=None), 5)
        stage.same("anna", stage.sync("anna", 1, protocol_type=None), 5)
    stage.same("anna", lambda ids: SyncGroupRequest(group_id="", generation_id=1, member_id="a"), 3)


def test_bad_heartbeats(stage: Stage) -> None:
    stage.same("anna", stage.heartbeat("nobody", 1), 4)
    stage.settle("anna")
    for bad in (
        stage.heartbeat("anna", 0),
        stage.heartbeat("anna", 2),
        stage.heartbeat("anna", -1),
        stage.heartbeat("", 1),
        stage.heartbeat("nobody", 1),
        stage.heartbeat("anna", 1, instance="unknown"),
        stage.heartbeat("anna", 1, group=""),
        stage.heartbeat("anna", 1, group="unknown"),
    ):
        stage.same("anna", bad, 4)


def test_bad_leaves(stage: Stage) -> None:
    stage.same("anna", stage.leave("nobody"), 5)
    stage.same("anna", stage.leave("nobody"), 3)
    stage.same("anna", lambda _: LeaveGroupRequest(group_id=stage.group, member_id="nobody"), 2)
    stage.same("anna", lambda _: LeaveGroupRequest(group_id="", members=[]), 5)
    stage.settle("anna")
    stage.same("anna", stage.leave(), 5)
    stage.same("anna", stage.leave("nobody", "anna", "nobody"), 5)
    stage.same("anna", stage.leave("", instance="unknown"), 5)
    described(stage)
    stage.same("anna", stage.leave("anna"), 5)
    stage.same("anna", stage.heartbeat("anna", 1), 4)
    stage.same("anna", stage.sync("anna", 1), 5)
    stage.same("anna", stage.join("anna"), 9)


def test_a_pending_member_may_leave(stage: Stage) -> None:
    stage.settle("anna")
    stage.same("bert", stage.join(), 9)
    stage.same("bert", stage.heartbeat("bert", 1), 4)
    stage.same("bert", stage.leave("bert"), 5)
    stage.same("bert", stage.join("bert"), 9)
    stage.same("anna", stage.heartbeat("anna", 1), 4)


# Static members


@pytest.mark.parametrize("version", [5, 7, 9])
def test_a_static_member_comes_back_without_a_rebalance(stage: Stage, version: int) -> None:
    stage.same("old", stage.join(instance="one"), version)
    stage.same("old", stage.sync("old", 1, {"old": b"all"}, instance="one"), 5)
    described(stage)
    stage.same("new", stage.join(instance="one"), version)
    stage.same("new", stage.sync("new", 1, instance="one"), 5)
    described(stage)
    stage.same("old", stage.heartbeat("old", 1, instance="one"), 4)
    stage.same("old", stage.sync("old", 1, instance="one"), 5)
    stage.same("old", stage.join("old", instance="one"), version)
    stage.same("old", stage.leave("old", instance="one"), 5)
    stage.same("new", stage.heartbeat("new", 1, instance="one"), 4)
    stage.same("admin", stage.leave("", instance="one"), 5)
    described(stage)


def test_a_static_member_that_wants_something_else_makes_a_rebalance(stage: Stage) -> None:
    stage.same("old", stage.join(instance="one"), 9)
    stage.same("old", stage.sync("old", 1, {"old": b"all"}, instance="one"), 5)
    stage.same("new", stage.join(instance="one", protocols=("sticky",)), 9)
    described(stage)


def test_a_static_member_is_replaced_while_it_waits(stage: Stage) -> None:
    stage.settle("anna")
    stage.send("old", stage.join(instance="one"), 9)
    stage.until_rebalancing("anna", 1)
    stage.send("new", stage.join(instance="one"), 9)
    stage.receive("old", JoinGroupRequest, 9)
    stage.same("anna", stage.join("anna"), 9)
    stage.receive("new", JoinGroupRequest, 9)
    stage.send("new", stage.sync("new", 2, instance="one"), 5)
    stage.send("newer", stage.join(instance="one"), 9)
    stage.receive("new", SyncGroupRequest, 5)
    stage.same("anna", stage.join("anna"), 9)
    stage.receive("newer", JoinGroupRequest, 9)
    described(stage)


# Administration


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(stage: Stage, version: int) -> None:
    stage.settle("anna", instance="one")
    groups = [stage.group, "unknown", ""]
    asks = {"include_authorized_operations": True} if version >= 3 else {}
    stage.same("admin", lambda _: DescribeGroupsRequest(groups=groups, **asks), version)


@pytest.mark.parametrize(
    ("states", "types", "version"),
    [
        ([], [], 0),
        ([], [], 3),
        ([], [], 4),
        (["Stable"], [], 4),
        (["stable", "Empty"], [], 5),
        ([" stable\t"], [], 5),
        ([], [" classic "], 5),
        (["Dead"], [], 5),
        (["nonsense"], [], 5),
        ([], ["classic"], 5),
        ([], ["Classic"], 5),
        ([], ["consumer"], 5),
        ([], ["nonsense"], 5),
    ],
)
def test_groups_are_listed(stage: Stage, states: list[str], types: list[str], version: int) -> None:
    stage.settle("anna")
    stage.send("admin", lambda _: ListGroupsRequest(states_filter=states, types_filter=types), version)
    listed = []
    for side in stage.both.sides:
        answer: Any = stage.connection(side, "admin").receive(ListGroupsRequest, version)
        mine = [vars(group) for group in answer.groups if group.group_id == stage.group]
        listed.append((answer.error_code, mine))
    assert listed[0] == listed[-1]


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_once_they_are_empty(stage: Stage, version: int) -> None:
    topic = stage.both.topic()
    delete = lambda _: DeleteGroupsRequest(groups_names=[stage.group, "unknown"])  # noqa: E731
    stage.settle("anna", topics=(topic,))
    stage.same("anna", stage.commit(topic, 3, "anna", 1), 9)
    stage.same("admin", delete, version)
    stage.same("anna", stage.leave("anna"), 5)
    stage.same("admin", delete, version)
    stage.same("admin", delete, version)
    described(stage)
    described(stage, 6)
