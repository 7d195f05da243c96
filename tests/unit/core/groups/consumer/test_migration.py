"""Groups that change their protocol: what a policy allows, and what a write that fails leaves behind."""

from __future__ import annotations

import struct

import pytest

from barnabas.core.groups.consumer.embedded import write_assignment
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.settings import ConsumerSettings, MigrationPolicy
from barnabas.core.groups.state import ClassicGroup
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.consumer_protocol import ConsumerProtocolSubscription
from tests.unit.core.groups.stage import Stage

from .consumers import beat, cluster, join, owned, topic_id

SESSION_MS = 10_000
GOES_UP = {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}
GOES_DOWN = {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


def on_stage(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> Stage:
    stage = Stage(cluster=cluster(a=3))
    stage.consumer_settings = ConsumerSettings(
        assignment_interval_ms=0, session_timeout_ms=SESSION_MS, migration_policy=policy
    )
    return stage


def classic_protocols() -> dict[str, bytes]:
    out = bytearray(struct.pack(">h", 1))
    ConsumerProtocolSubscription(topics=["a"]).encode_into(out, 1)
    return {"range": bytes(out)}


def group_of(stage: Stage) -> ConsumerGroup | ClassicGroup:
    found = stage.shard.groups.get("g")
    assert isinstance(found, ConsumerGroup | ClassicGroup)
    return found


def mixed(stage: Stage) -> str:
    """The group of a member of the consumer protocol, "anna", has one of the classic protocol; its id."""
    join(stage, "anna", "a")
    member_id = str(stage.join(protocols=classic_protocols(), session_timeout_ms=30_000).result().member_id)
    assert isinstance(group_of(stage), ConsumerGroup)
    return member_id


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_classic_group_becomes_a_consumer_group_if_the_policy_allows_it(policy: MigrationPolicy) -> None:
    stage = on_stage(policy)
    member_id = stage.join(protocols=classic_protocols()).result().member_id
    stage.sync(member_id, 1, {member_id: b""})
    joined = beat(stage, "anna", 0, rebalance_timeout_ms=30_000, topic_partitions=[], subscribed_topic_names=["a"])
    if policy in GOES_UP:
        assert joined.error is None
        assert set(dict(group_of(stage).members.items())) == {member_id, "anna"}
    else:
        assert joined.error is not None
        assert joined.error.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert "online upgrade is disabled" in joined.error.message
        assert isinstance(group_of(stage), ClassicGroup)


@pytest.mark.parametrize("policy", [each for each in MigrationPolicy if each is not MigrationPolicy.DISABLED])
def test_a_consumer_group_becomes_a_classic_one_if_the_policy_allows_it(policy: MigrationPolicy) -> None:
    stage = on_stage(policy)
    member_id = mixed(stage)
    assert beat(stage, "anna", -1).error is None
    assert isinstance(group_of(stage), ClassicGroup if policy in GOES_DOWN else ConsumerGroup)
    assert set(dict(group_of(stage).members.items())) == {member_id}


def test_without_migration_no_classic_member_joins_a_consumer_group() -> None:
    stage = on_stage(MigrationPolicy.DISABLED)
    join(stage, "anna", "a")
    refused = stage.join(protocols=classic_protocols())
    assert refused.error is not None
    assert refused.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_whose_going_could_not_be_written_goes_later() -> None:
    """It stayed for good, and with it its partitions: the timers of all had been stopped."""
    stage = on_stage()
    mixed(stage)
    stage.failing = True
    assert beat(stage, "anna", -1).error is not None
    stage.failing = False
    stage.pass_ms(1_000)
    assert isinstance(group_of(stage), ClassicGroup)


def test_a_silent_classic_member_goes_although_another_could_not() -> None:
    stage = on_stage()
    mixed(stage)
    stage.failing = True
    assert beat(stage, "anna", -1).error is not None
    stage.failing = False
    stage.pass_ms(60_000)
    assert not len(group_of(stage).members)


def test_an_instance_whose_heir_could_not_be_written_goes_when_its_time_is_over() -> None:
    stage = on_stage()
    join(stage, "anna", "a", instance_id="one")
    assert beat(stage, "anna", -2, instance_id="one").error is None
    stage.failing = True
    heir = {"instance_id": "one", "rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["a"]}
    assert beat(stage, "bert", 0, topic_partitions=owned(), **heir).error is not None
    stage.failing = False
    assert set(dict(group_of(stage).members.items())) == {"anna"}
    stage.pass_ms(SESSION_MS + 1)
    assert not len(group_of(stage).members)


def test_an_instance_whose_heir_is_refused_goes_when_its_time_is_over() -> None:
    stage = on_stage()
    join(stage, "anna", "a", instance_id="one")
    assert beat(stage, "anna", -2, instance_id="one").error is None
    heir = {"instance_id": "one", "rebalance_timeout_ms": 30_000, "subscribed_topic_regex": "["}
    refused = beat(stage, "bert", 0, topic_partitions=owned(), **heir)
    assert refused.error is not None
    assert refused.error.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    stage.pass_ms(SESSION_MS + 1)
    assert not len(group_of(stage).members)


def test_who_gave_back_what_could_not_be_written_and_is_mute_from_then_on_goes_when_its_time_is_over() -> None:
    """It stayed as long as it sent heartbeats, and nobody else got its partitions."""
    stage = on_stage()
    anna = join(stage, "anna", "a")
    join(stage, "bert", "a")
    told = beat(stage, "anna", anna.member_epoch, topic_partitions=owned(a=[0, 1, 2])).result()
    assert told.assignment is not None
    stage.failing = True
    given_back = told.assignment.topic_partitions
    assert beat(stage, "anna", anna.member_epoch, topic_partitions=given_back).error is not None
    stage.failing = False
    for _ in range(30_000 // 5_000 + 1):
        stage.pass_ms(5_000)
        group = group_of(stage)
        assert isinstance(group, ConsumerGroup)
        for member_id, member in dict(group.members.items()).items():
            assert beat(stage, member_id, member.epoch).error is None
    assert set(dict(group_of(stage).members.items())) == {"bert"}


def test_what_a_classic_member_holds_is_nobody_elses_however_often_its_group_migrates() -> None:
    """Its target was taken for what it held when the group came back: another had its partitions at once."""
    stage = on_stage()
    member_id = stage.join(protocols=classic_protocols()).result().member_id
    everything = write_assignment({topic_id("a"): [0, 1, 2]}, 1, stage.cluster)
    assert stage.sync(member_id, 1, {member_id: everything}).result().error_code == 0
    join(stage, "anna", "a")
    assert beat(stage, "anna", -1).error is None
    assert isinstance(group_of(stage), ClassicGroup)
    bert = join(stage, "bert", "a")
    assert bert.assignment is not None
    assert bert.assignment.topic_partitions == []
    # It hears of it, joins again with nothing, and the rest goes to the other.
    stage.join(member_id, protocols=classic_protocols())
    assert beat(stage, "bert", bert.member_epoch, topic_partitions=[]).error is None
    found = group_of(stage)
    assert isinstance(found, ConsumerGroup)
    held = [partition for member in found.members.values() for partition in member.assigned.get(topic_id("a"), ())]
    assert sorted(held) == [0, 1, 2]
