"""Streams groups: the same members with the same topologies, the same answers, tasks and records."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.support.reference_exchange import differences
from tests.support.waiting import wait_until

Owned = dict[str, list[int]]


def owned(active: Owned | None = None, standby: Owned | None = None) -> dict[str, Any]:
    def listed(tasks: Owned | None) -> list[TaskIds]:
        return [TaskIds(subtopology_id=each, partitions=at) for each, at in (tasks or {}).items()]

    return {"active_tasks": listed(active), "standby_tasks": listed(standby), "warmup_tasks": []}


class StreamsStage:
    def __init__(self, both: Any) -> None:
        self.both = both
        self.id = both.new_name("streaming")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.id])
        for side in both.sides:
            side.wait_until(find, 4, lambda answer: answer.coordinators[0].error_code == 0)
            ready = HeartbeatRequest(group_id=self.id, generation_id=0, member_id="nobody")
            side.wait_until(ready, 4, lambda answer: answer.error_code == 25)
        self.configure(streams_initial_rebalance_delay_ms="0", streams_assignment_interval_ms="0")

    def configure(self, **configs: str) -> None:
        altered = [
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=32, resource_name=self.id, configs=altered)
        self.both.same(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    def beat(self, name: str, epoch: int, *ignoring: str, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            **{"group_id": self.id, "member_id": name, "member_epoch": epoch, **fields}
        )
        return self.both.same(request, 0, ignoring=set(ignoring))

    def join(self, name: str, topology: Topology, *ignoring: str, **fields: Any) -> Any:
        given = {"rebalance_timeout_ms": 10_000, "topology": topology, "process_id": f"process-of-{name}", **owned()}
        return self.beat(name, 0, *ignoring, **{**given, **fields})

    def describe(self, *ignoring: str) -> None:
        """Members in the order of their names: Kafka's is that of its table."""
        answers = []
        for side in self.both.sides:
            answer = side.ask(StreamsGroupDescribeRequest(group_ids=[self.id]), 0)
            for group in answer.groups:
                group.members.sort(key=lambda member: member.member_id)
            answers.append(answer)
        found = differences(*answers, ignoring=set(ignoring)) if len(answers) == 2 else []
        assert not found, "\n".join(["descriptions differ", *found])

    def is_listed(self, state: str) -> None:
        request = ListGroupsRequest(states_filter=[state], types_filter=["Streams"])
        for side in self.both.sides:
            answer = side.ask(request, 5)
            found = [each for each in answer.groups if each.group_id == self.id]
            assert [(each.group_type, each.group_state, each.protocol_type) for each in found] == [
                ("streams", state, "streams")
            ], side.name


@pytest.fixture
def stage(both: Any) -> StreamsStage:
    return StreamsStage(both)


def stateless(*topics: str, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=[Subtopology(subtopology_id="0", source_topics=list(topics))])


def word_count(lines: str, prefix: str) -> Topology:
    store = TopicInfo(
        name=f"{prefix}-counts-changelog",
        replication_factor=1,
        topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
    )
    return Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=[lines], repartition_sink_topics=[f"{prefix}-words-repartition"]
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name=f"{prefix}-words-repartition")],
                state_changelog_topics=[store],
                copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
            ),
        ]
    )


def test_joining_sharing_and_leaving(stage: StreamsStage) -> None:
    topology = stateless(stage.both.topic(4))
    first = stage.join("anna", topology, client_tags=[KeyValue(key="zone", value="a")], rack_id="rack")
    assert [each.partitions for each in first.active_tasks] == [[0, 1, 2, 3]]
    stage.is_listed("Stable")
    stage.describe()
    stage.join("bert", topology)
    kept = stage.beat("anna", 2)
    stage.is_listed("Reconciling")
    stage.beat("anna", 2, **owned({"0": kept.active_tasks[0].partitions}))
    assert len(stage.beat("bert", 3).active_tasks[0].partitions) == 2
    stage.describe()
    for name in ("carl", "dora", "emil", "fred", "gina"):
        stage.join(name, topology, process_id="process-of-many")
    stage.describe()
    stage.beat("bert", -1)
    stage.beat("bert", -1)
    stage.beat("carl", -1)
    stage.beat("anna", 3)
    stage.describe()


def test_bad_heartbeats(stage: StreamsStage) -> None:
    topic = stage.both.topic(2)
    topology = stateless(topic)
    stage.beat("anna", 3)
    stage.beat("anna", -1)
    stage.join("anna", topology)
    stage.beat("anna", 9)
    stage.beat("anna", 1)
    stage.beat("anna", 1, **owned())
    stage.beat("nobody", 2)
    stage.beat("", 2)
    stage.beat("anna", 2, group_id="")
    stage.beat("anna", -3)
    stage.beat("anna", -2)
    stage.beat("anna", 2, instance_id="static")
    stage.beat("anna", 2, rack_id="")
    stage.beat("anna", 2, topology=topology)
    stage.beat("anna", 2, active_tasks=[])
    stage.beat("anna", 2, **owned({"7": [0]}))
    stage.beat("anna", 2, **owned({"0": [0, 2]}))
    stage.beat("anna", 2, task_offsets=[TaskOffset(subtopology_id="0")])
    stage.beat("anna", 2, task_end_offsets=[])
    stage.beat("anna", 2, **{**owned(), "warmup_tasks": [TaskIds(subtopology_id="0", partitions=[0])]})
    stage.beat("bert", 0)
    stage.beat("bert", 0, rebalance_timeout_ms=1)
    stage.join("bert", topology, **owned({"0": [0]}))
    stage.join("bert", stateless(topic, epoch=1))
    stage.join("bert", stateless("__consumer_offsets"))
    stage.join("bert", stateless("a b"))
    regex = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["a.*"])])
    stage.join("bert", regex)
    sized = TopicInfo(name="c", partitions=3)
    changelog = Subtopology(subtopology_id="0", source_topics=[topic], state_changelog_topics=[sized])
    stage.join("bert", Topology(subtopologies=[changelog]))
    stage.describe()


def test_topologies_that_are_not_ready(stage: StreamsStage) -> None:
    both = stage.both
    two, three = both.topic(2), both.topic(3)
    stage.join("anna", stateless(two, *(f"missing-{number}" for number in range(5))))
    stage.describe()
    other = StreamsStage(both)
    joined = Subtopology(
        subtopology_id="0", source_topics=[two, three], copartition_groups=[CopartitionGroup(source_topics=[0, 1])]
    )
    other.join("anna", Topology(subtopologies=[joined]))
    wrong = StreamsStage(both)
    changelog = Subtopology(subtopology_id="0", source_topics=[two], state_changelog_topics=[TopicInfo(name=three)])
    wrong.join("anna", Topology(subtopologies=[changelog]))
    wrong.describe()
    never = StreamsStage(both)
    looped = Subtopology(
        subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")], repartition_sink_topics=["r"]
    )
    never.join("anna", Topology(subtopologies=[looped]))
    never.join("anna", Topology(subtopologies=[Subtopology(subtopology_id="0")]))
    unread = Subtopology(subtopology_id="0", source_topics=[two], repartition_source_topics=[TopicInfo(name="r")])
    never.join("anna", Topology(subtopologies=[unread]))


def test_internal_topics_are_created_and_tasks_follow(stage: StreamsStage) -> None:
    topology = word_count(stage.both.topic(3), stage.id)
    stage.configure(streams_num_standby_replicas="1")
    stage.join("anna", topology)
    # The topics may be there by now, on one side or on both.
    stage.join("bert", topology, "status", "active_tasks", "standby_tasks")
    for side in stage.both.sides:
        epochs = {"anna": 2, "bert": 3}

        def is_stable(side: Any = side, epochs: dict[str, int] = epochs) -> bool:
            for name, epoch in epochs.items():
                beat = StreamsGroupHeartbeatRequest(group_id=stage.id, member_id=name, member_epoch=epoch)
                answer = side.ask(beat, 0)
                assert answer.error_code == 0, (side.name, answer.error_message)
                epochs[name] = answer.member_epoch
            described = side.ask(StreamsGroupDescribeRequest(group_ids=[stage.id]), 0)
            return bool(described.groups[0].group_state == "Stable")

        wait_until(is_stable)
    # In how many steps the topics came is each side's own matter; who is to have which tasks is not.
    stage.describe("group_epoch", "assignment_epoch", "member_epoch")
    internal = [f"{stage.id}-words-repartition", f"{stage.id}-counts-changelog"]
    for name in internal:
        stage.both.wait_for_partitions(name, 3)


def test_a_shutdown_stale_topologies_and_endpoints(stage: StreamsStage) -> None:
    topic = stage.both.topic(2)
    here = {"user_endpoint": Endpoint(host="here", port=1000), "endpoint_information_epoch": -1}
    stage.join("anna", stateless(topic, epoch=3), **here)
    stage.join("bert", stateless(topic, epoch=1), **here)
    stage.beat("anna", 2, endpoint_information_epoch=-1)
    stage.beat("anna", 2, shutdown_application=True)
    stage.beat("bert", 3)
    stage.describe()


def test_the_first_assignment_is_delayed(stage: StreamsStage) -> None:
    stage.configure(streams_initial_rebalance_delay_ms="60000")
    topology = stateless(stage.both.topic(2))
    stage.join("anna", topology)
    stage.join("bert", topology)
    stage.beat("anna", 1)
    stage.is_listed("Assigning")
    stage.describe()
    stage.beat("anna", -1)
    stage.beat("bert", -1)
    stage.is_listed("Empty")
    stage.describe()
    stage.both.same(DeleteGroupsRequest(groups_names=[stage.id]), 2)
    stage.describe()


def test_offsets_are_committed_with_member_epochs(stage: StreamsStage) -> None:
    topic = stage.both.topic(2)
    stage.join("anna", stateless(topic))

    def commit(name: str, epoch: int, version: int = 9, topic: str = topic) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        request = OffsetCommitRequest(
            group_id=stage.id, member_id=name, generation_id_or_member_epoch=epoch, topics=topics
        )
        stage.both.same(request, version)

    def fetch(name: str | None, epoch: int) -> None:
        group = OffsetFetchRequestGroup(group_id=stage.id, member_id=name, member_epoch=epoch, topics=None)
        stage.both.same(OffsetFetchRequest(groups=[group]), 9)

    commit("anna", 2)
    commit("anna", 2, version=8)
    commit("anna", 1)
    commit("anna", 3)
    commit("nobody", 2)
    commit("", -1)
    fetch("anna", 2)
    fetch("anna", 1)
    fetch("nobody", 2)
    fetch(None, -1)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    unwanted = OffsetDeleteRequest(
        group_id=stage.id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    )
    stage.both.same(unwanted, 0)
    stage.both.same(DeleteGroupsRequest(groups_names=[stage.id]), 2)
    stage.beat("anna", -1)
    commit("", -1)
    stage.both.same(unwanted, 0)
    stage.both.same(DeleteGroupsRequest(groups_names=[stage.id]), 2)
