"""Streams groups by themselves: what members are told, and what is written."""

from __future__ import annotations

import pytest

from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.groups.streams.settings import StreamsSettings
from barnabas.core.groups.streams.topology import StatusCode
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.streams_group_heartbeat import Endpoint
from barnabas.wire.records import streams_groups as wire
from tests.unit.core.groups.consumer.consumers import cluster, grow
from tests.unit.core.groups.stage import NEW, Stage

from .applications import beat, counting, group_of, join, listed, shown, statuses, word_count


@pytest.fixture
def stage() -> Stage:
    return Stage(cluster=cluster(lines=2, words=2, counts=2))


def test_the_first_member_brings_the_topology_and_gets_all_tasks(stage: Stage) -> None:
    answer = join(stage, "anna", word_count())
    assert shown(answer.response.active_tasks) == {"0": [0, 1], "1": [0, 1]}
    assert (answer.response.member_epoch, statuses(answer.response), answer.to_create) == (2, [], {})
    assert [type(record.key).__name__ for record in stage.records()] == [
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupTopologyKey",
        "StreamsGroupMetadataKey",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupCurrentMemberAssignmentKey",
    ]
    written = stage.records()[2].value
    assert isinstance(written, wire.StreamsGroupMetadataValue)
    assert (written.epoch, written.validated_topology_epoch) == (2, 0)
    assert group_of(stage).state_name == "Stable"


def test_a_second_member_waits_until_the_first_has_given_tasks_back(stage: Stage) -> None:
    join(stage, "anna", counting())
    assert shown(join(stage, "bert", counting()).response.active_tasks) == {}
    kept = beat(stage, "anna", 2).result().response
    assert (shown(kept.active_tasks), kept.member_epoch) == ({"0": [0]}, 2)
    assert group_of(stage).state_name == "Reconciling"
    given_back = {"active_tasks": listed({"0": [0]}), "standby_tasks": [], "warmup_tasks": []}
    assert beat(stage, "anna", 2, **given_back).result().response.member_epoch == 3
    assert shown(beat(stage, "bert", 3).result().response.active_tasks) == {"0": [1]}
    assert group_of(stage).state_name == "Stable"


def test_who_missed_its_tasks_is_told_them_again_but_not_the_old_ones_while_new_ones_are_delayed(stage: Stage) -> None:
    stage.streams_settings = StreamsSettings(initial_rebalance_delay_ms=0, assignment_interval_ms=1_000)
    join(stage, "anna", counting())
    nothing = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    assert shown(beat(stage, "anna", 2, **nothing).result().response.active_tasks) == {"0": [0, 1]}
    join(stage, "bert", counting())
    delayed = beat(stage, "anna", 2, **nothing).result().response
    assert (delayed.active_tasks, statuses(delayed)) == (None, [StatusCode.ASSIGNMENT_DELAYED])
    stage.pass_ms(1_001)
    assert shown(beat(stage, "anna", 2, **nothing).result().response.active_tasks) == {"0": [0]}


def test_who_does_not_give_tasks_back_in_time_is_removed(stage: Stage) -> None:
    join(stage, "anna", counting(), rebalance_timeout_ms=5_000)
    join(stage, "bert", counting())
    beat(stage, "anna", 2)
    stage.pass_ms(5_001)
    assert list(group_of(stage).members) == ["bert"]
    assert shown(beat(stage, "bert", 3).result().response.active_tasks) == {"0": [0, 1]}


def test_silent_members_are_removed(stage: Stage) -> None:
    join(stage, "anna", counting())
    stage.pass_ms(45_001)
    assert group_of(stage).state_name == "Empty"
    assert group_of(stage).topology is not None


def test_internal_topics_are_named_until_they_are_there(stage: Stage) -> None:
    stage.cluster = image = cluster(lines=3)
    answer = join(stage, "anna", word_count())
    assert statuses(answer.response) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {name: topic.num_partitions for name, topic in answer.to_create.items()} == {"words": 3, "counts": 3}
    assert group_of(stage).state_name == "NotReady"
    for name in ("words", "counts"):
        grow(image, name, 3)
    stage.shard.topics_changed(["words", "counts"], created=True)
    ready = beat(stage, "anna", 2).result()
    assert (statuses(ready.response), ready.to_create) == ([], {})
    assert shown(ready.response.active_tasks) == {"0": [0, 1, 2], "1": [0, 1, 2]}


def test_missing_sources_and_wrong_sizes_are_told_and_nothing_is_assigned(stage: Stage) -> None:
    assert statuses(join(stage, "anna", counting("nowhere")).response) == [StatusCode.MISSING_SOURCE_TOPICS]
    other = Stage(cluster=cluster(lines=2, counts=3))
    answer = join(other, "anna", counting())
    assert statuses(answer.response) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert (shown(answer.response.active_tasks), answer.to_create) == ({}, {})


def test_the_first_assignment_waits_for_more_members(stage: Stage) -> None:
    stage.streams_settings = StreamsSettings(initial_rebalance_delay_ms=3_000)
    for name in ("anna", "bert"):
        answer = join(stage, name, counting())
        assert statuses(answer.response) == [StatusCode.ASSIGNMENT_DELAYED]
        assert (shown(answer.response.active_tasks), answer.response.member_epoch) == ({}, 1)
    stage.pass_ms(3_001)
    assert [shown(beat(stage, name, 1).result().response.active_tasks) for name in ("anna", "bert")] == [
        {"0": [0]},
        {"0": [1]},
    ]


def test_a_group_that_is_deleted_while_it_waits_leaves_no_timer(stage: Stage) -> None:
    stage.streams_settings = StreamsSettings(initial_rebalance_delay_ms=3_000)
    join(stage, "anna", counting())
    beat(stage, "anna", -1)
    assert stage.run(lambda shard: shard.delete_group("g")).result() is ErrorCode.NONE
    assert "g" not in stage.shard.groups
    assert not stage.shard.timers.is_scheduled(("initial rebalance", "g"))


def test_standbys_go_to_another_process(stage: Stage) -> None:
    join(stage, "anna", counting())
    join(stage, "bert", counting())
    stage.streams_settings = StreamsSettings(
        assignment_interval_ms=0, initial_rebalance_delay_ms=0, num_standby_replicas=1
    )
    beat(stage, "anna", 2)
    beat(stage, "anna", 2, active_tasks=listed({"0": [0]}), standby_tasks=[], warmup_tasks=[])
    targets = {name: (target.active, target.standby) for name, target in group_of(stage).targets.items()}
    assert targets == {
        "anna": ({"0": frozenset({0})}, {"0": frozenset({1})}),
        "bert": ({"0": frozenset({1})}, {"0": frozenset({0})}),
    }


def test_the_topology_stays_as_it_is(stage: Stage) -> None:
    join(stage, "anna", word_count(epoch=1))
    stale = join(stage, "bert", word_count(epoch=0)).response
    assert statuses(stale) == [StatusCode.STALE_TOPOLOGY]
    refused = beat(stage, "carl", 0, rebalance_timeout_ms=1, topology=word_count(epoch=2), process_id="p")
    assert refused.error is not None
    assert refused.error.code is ErrorCode.INVALID_REQUEST


def test_a_shutdown_is_told_to_all_until_the_last_has_left(stage: Stage) -> None:
    join(stage, "anna", counting())
    join(stage, "bert", counting())
    beat(stage, "anna", 2, shutdown_application=True)
    assert StatusCode.SHUTDOWN_APPLICATION in statuses(beat(stage, "bert", 3).result().response)
    for name in ("anna", "bert"):
        beat(stage, name, -1)
    assert statuses(join(stage, "carl", counting()).response) == []


def test_endpoints_are_told_with_their_partitions(stage: Stage) -> None:
    join(stage, "anna", counting(), user_endpoint=Endpoint(host="here", port=1))
    answer = beat(stage, "anna", 2, user_endpoint=Endpoint(host="there", port=2)).result().response
    assert answer.partitions_by_user_endpoint is None
    (told,) = join(stage, "bert", counting(), endpoint_information_epoch=-1).response.partitions_by_user_endpoint or []
    assert (told.user_endpoint.host, told.user_endpoint.port) == ("there", 2)
    assert [(each.topic, each.partitions) for each in told.active_partitions] == [("lines", [0, 1])]


@pytest.mark.parametrize(
    ("epoch", "error"), [(2, None), (1, ErrorCode.STALE_MEMBER_EPOCH), (9, ErrorCode.STALE_MEMBER_EPOCH)]
)
def test_offsets_are_committed_in_the_epoch_of_a_task(stage: Stage, epoch: int, error: ErrorCode | None) -> None:
    join(stage, "anna", counting())
    join(stage, "bert", counting())
    beat(stage, "anna", 2, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    committer = Committer("g", "anna", None, epoch)
    done = stage.run(lambda shard: shard.commits.commit(committer, [Commit("lines", 0, 7)]))
    assert (done.error and done.error.code) == error


def test_offsets_of_sources_are_kept_while_there_are_members(stage: Stage) -> None:
    join(stage, "anna", counting())
    delete = stage.run(lambda shard: shard.commits.delete("g", [("lines", 0), ("other", 0)]))
    assert delete.result() == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    beat(stage, "anna", -1)
    assert stage.run(lambda shard: shard.commits.delete("g", [("lines", 0)])).result() == [ErrorCode.NONE]


def test_an_empty_streams_group_may_become_a_classic_one_and_the_other_way(stage: Stage) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    join(stage, "anna", counting())
    refused = stage.run(lambda shard: shard.members.join(request, NEW))
    assert refused.error is not None
    assert refused.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat(stage, "anna", -1)
    assert stage.run(lambda shard: shard.members.join(request, NEW)).result().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert stage.group().is_empty
    assert join(stage, "anna", counting()).response.error_code == ErrorCode.NONE
    assert group_of(stage).state_name == "Stable"
