"""Groups of the consumer protocol: the same members, the same heartbeats, the same answers.

Members make their own ids, so both sides know them by the same names; assignors deal out in the order of names.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.wire.messages.sync_group import SyncGroupRequest
from tests.reference.group_stage import subscription
from tests.support.reference_exchange import differences
from tests.support.waiting import wait_until

Owned = dict[str, list[int]]


class Group:
    def __init__(self, both: Any) -> None:
        self.both = both
        self.id = both.new_name("consumers")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.id])
        for side in both.sides:
            side.wait_until(find, 4, lambda answer: answer.coordinators[0].error_code == 0)
            ready = HeartbeatRequest(group_id=self.id, generation_id=0, member_id="nobody")
            side.wait_until(ready, 4, lambda answer: answer.error_code == 25)

    def beat(self, name: str, epoch: int, *, owned: Owned | None = None, version: int = 1, **fields: Any) -> Any:
        def build(side: Any) -> ConsumerGroupHeartbeatRequest:
            partitions = None
            if owned is not None:
                partitions = [
                    TopicPartitions(topic_id=side.topic_id(topic), partitions=indexes)
                    for topic, indexes in owned.items()
                ]
            given = {"group_id": self.id, "topic_partitions": partitions, **fields}
            return ConsumerGroupHeartbeatRequest(member_id=name, member_epoch=epoch, **given)

        return self.both.same(build, version)

    def join(self, name: str, *topics: str, **fields: Any) -> Any:
        given: dict[str, Any] = {"owned": {}, "rebalance_timeout_ms": 60_000, **fields}
        if topics:
            given["subscribed_topic_names"] = list(topics)
        return self.beat(name, 0, **given)

    def described(self, ignoring: frozenset[str] = frozenset()) -> None:
        answers: list[Any] = []
        for side in self.both.sides:
            answer: Any = side.ask(ConsumerGroupDescribeRequest(group_ids=[self.id]), 1)
            answer.groups[0].members.sort(key=lambda each: (each.member_type, each.member_id))
            answers.append(answer)
        self.both.note(f"{answers[0]!r}")
        found = differences(*answers, ignoring=ignoring) if len(answers) > 1 else []
        assert not found, "\n".join(found)

    def listed(self) -> None:
        def mine(side: Any) -> Any:
            answer = side.ask(ListGroupsRequest(), 5)
            return [each for each in answer.groups if each.group_id == self.id]

        # Kafka answers a request to join before the group's record is committed.
        wait_until(lambda: len({repr(mine(side)) for side in self.both.sides}) == 1)

    def commit(self, topic: str, offset: int, name: str, epoch: int, version: int = 9, partition: int = 0) -> Any:
        def build(side: Any) -> OffsetCommitRequest:
            part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            named = OffsetCommitRequestTopic(name=topic, topic_id=side.topic_id(topic), partitions=[part])
            if version < 10:
                named = OffsetCommitRequestTopic(name=topic, partitions=[part])
            return OffsetCommitRequest(
                group_id=self.id, member_id=name, generation_id_or_member_epoch=epoch, topics=[named]
            )

        return self.both.same(build, version)

    def fetch(self, topic: str, name: str | None, epoch: int) -> Any:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        asked = OffsetFetchRequestGroup(group_id=self.id, member_id=name, member_epoch=epoch, topics=topics)
        return self.both.same(OffsetFetchRequest(groups=[asked]), 9)

    def settled(self, names: dict[str, int], owned: dict[str, Owned]) -> None:
        """Members report what they have, in this order, until nobody's epoch changes."""
        for _ in range(4):
            for name in names:
                answer = self.beat(name, names[name], owned=owned[name])
                names[name] = answer.member_epoch
                if answer.assignment is not None:
                    owned[name] = self.named(answer)

    def named(self, answer: Any) -> Owned:
        names = {self.both.kafka.topic_id(topic): topic for topic in self.topics}
        return {names[each.topic_id]: each.partitions for each in answer.assignment.topic_partitions}

    topics: tuple[str, ...] = ()


@pytest.fixture
def group(both: Any) -> Group:
    return Group(both)


@pytest.mark.parametrize("version", [0, 1])
def test_the_first_member_has_everything(group: Group, version: int) -> None:
    topic = group.both.topic(3)
    answer = group.join("anna", topic, version=version)
    assert [each.partitions for each in answer.assignment.topic_partitions] == [[0, 1, 2]]
    group.described()
    group.beat("anna", answer.member_epoch, version=version)
    group.beat("anna", answer.member_epoch, owned={topic: [0, 1, 2]}, version=version)
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic]}
    group.beat("anna", answer.member_epoch, owned={topic: [0, 1, 2]}, version=version, **full)
    group.listed()
    group.beat("anna", -1, version=version)
    group.described()
    group.listed()


@pytest.mark.parametrize("assignor", ["uniform", "range", None])
def test_partitions_move_one_by_one(group: Group, assignor: str | None) -> None:
    topic = group.both.topic(5)
    anna = group.join("anna", topic, server_assignor=assignor)
    bert = group.join("bert", topic, server_assignor=assignor)
    assert bert.assignment.topic_partitions == []
    group.described()
    moved = group.beat("anna", anna.member_epoch, owned={topic: [0, 1, 2, 3, 4]})
    group.described()
    kept = moved.assignment.topic_partitions[0].partitions
    waiting = group.beat("bert", bert.member_epoch)
    assert waiting.assignment is None
    group.beat("anna", anna.member_epoch)
    group.beat("anna", anna.member_epoch, owned={topic: kept})
    group.described()
    group.beat("bert", bert.member_epoch)
    group.described()
    group.join("carl", topic, server_assignor=assignor)
    group.topics = (topic,)
    names = {"anna": 3, "bert": 3, "carl": 4}
    group.settled(names, {"anna": {topic: kept}, "bert": {topic: sorted({0, 1, 2, 3, 4} - set(kept))}, "carl": {}})
    group.described()
    group.beat("bert", -1)
    group.described()


def test_members_with_different_topics_are_loaded_alike(group: Group) -> None:
    """Which topic is looked at first depends on its id, so each side reports what it was given."""
    first, second = group.both.topic(2), group.both.topic(2)
    wanted = {"anna": [first], "bert": [first, second], "carl": [second]}
    loads = [_settle_alone(side, group.id, wanted) for side in group.both.sides]
    assert loads[0] == loads[-1]


def _settle_alone(side: Any, group_id: str, wanted: dict[str, list[str]]) -> dict[str, int]:
    epochs, owned = dict.fromkeys(wanted, 0), {name: list[TopicPartitions]() for name in wanted}
    for _ in range(5):
        for name, topics in wanted.items():
            joins = epochs[name] == 0
            answer = side.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=group_id,
                    member_id=name,
                    member_epoch=epochs[name],
                    rebalance_timeout_ms=60_000 if joins else -1,
                    subscribed_topic_names=topics if joins else None,
                    topic_partitions=owned[name],
                ),
                1,
            )
            assert answer.error_code == 0
            epochs[name] = answer.member_epoch
            if answer.assignment is not None:
                owned[name] = answer.assignment.topic_partitions
    assert sum(len(each.partitions) for mine in owned.values() for each in mine) == 4
    return {name: sum(len(each.partitions) for each in mine) for name, mine in owned.items()}


def test_epochs_that_are_wrong(group: Group) -> None:
    topic = group.both.topic(2)
    epoch = group.join("anna", topic).member_epoch
    for wrong in (epoch + 1, epoch - 1, 1000, 2147483647, -3, -100):
        group.beat("anna", wrong)
        group.beat("anna", wrong, owned={topic: [0, 1]})
        group.beat("anna", wrong, owned={topic: [0, 7]})
    group.beat("nobody", epoch)
    group.beat("nobody", -1)
    group.beat("anna", -2)
    group.beat("anna", epoch, group_id=group.both.new_name("missing"))
    group.beat("anna", -1, group_id=group.both.new_name("missing"))


def test_requests_that_are_wrong(group: Group) -> None:
    topic = group.both.topic()
    group.join("", topic)
    group.join("anna", topic, group_id="")
    group.join("anna", topic, instance_id="")
    group.join("anna", topic, rack_id="")
    group.join("anna", topic, rebalance_timeout_ms=-1)
    group.join("anna", topic, owned=None)
    group.join("anna", topic, owned={topic: [0]})
    group.join("anna")
    group.join("anna", topic, server_assignor="best")
    group.join("anna", topic, server_assignor="")
    group.join("anna", subscribed_topic_regex="(")
    group.beat("", 5)
    group.both.same(ConsumerGroupDescribeRequest(group_ids=[group.id]), 1)
    group.both.same(ConsumerGroupDescribeRequest(group_ids=[""]), 1)


def test_static_members_come_back_as_heirs(group: Group) -> None:
    topic = group.both.topic(2)
    epoch = group.join("anna", topic, instance_id="one").member_epoch
    group.join("anton", topic, instance_id="one")
    group.beat("anton", epoch, instance_id="one")
    group.beat("anna", epoch, instance_id="two")
    group.beat("anna", -2, instance_id="one")
    group.described()
    group.beat("anna", epoch, instance_id="one")
    group.join("anton", topic, instance_id="one")
    group.described()
    group.beat("anna", epoch, instance_id="one")
    group.beat("anton", -1, instance_id="one")
    group.described()


def test_a_member_changes_what_it_subscribes_to(group: Group) -> None:
    first, second = group.both.topic(2), group.both.topic(2)
    epoch = group.join("anna", first, second, rack_id="r1").member_epoch
    changed = group.beat("anna", epoch, subscribed_topic_names=[second])
    group.described()
    group.beat("anna", changed.member_epoch, owned={second: [0, 1]})
    group.described()
    group.beat("anna", changed.member_epoch, subscribed_topic_names=["missing"])
    group.described()


def test_a_topic_that_grows_is_assigned_anew(group: Group) -> None:
    from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    topic = group.both.topic(1)
    epoch = group.join("anna", topic).member_epoch
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=3, assignments=None)], timeout_ms=15_000
    )
    for side in group.both.sides:
        side.ask(request, 3)
    group.both.wait_for_partitions(topic, 3)

    def has_moved(answer: Any) -> bool:
        return bool(answer.member_epoch != epoch)

    for side in group.both.sides:
        beat = ConsumerGroupHeartbeatRequest(group_id=group.id, member_id="anna", member_epoch=epoch)
        side.wait_until(beat, 1, has_moved)
    group.described()


def test_offsets_with_member_epochs(group: Group) -> None:
    topic = group.both.topic(2)
    epoch = group.join("anna", topic).member_epoch
    for version in (8, 9, 10):
        group.commit(topic, 5, "anna", epoch, version)
        group.commit(topic, 6, "anna", epoch - 1, version)
        group.commit(topic, 6, "anna", epoch + 1, version)
        group.commit(topic, 7, "nobody", epoch, version)
        group.commit(topic, 7, "", -1, version)
    group.fetch(topic, "anna", epoch)
    group.fetch(topic, "anna", epoch - 1)
    group.fetch(topic, "nobody", epoch)
    group.fetch(topic, None, -1)
    bert = group.join("bert", topic).member_epoch
    group.beat("anna", epoch, owned={topic: [0]})
    group.commit(topic, 8, "anna", epoch, partition=0)
    group.commit(topic, 8, "anna", epoch, partition=1)
    group.beat("bert", bert)
    group.commit(topic, 9, "bert", bert, partition=1)
    group.both.same(DeleteGroupsRequest(groups_names=[group.id]), 2)
    group.beat("anna", -1)
    group.beat("bert", -1)
    group.both.same(DeleteGroupsRequest(groups_names=[group.id]), 2)
    group.described()
    group.listed()


def test_other_requests_about_a_consumer_group(group: Group) -> None:
    topic = group.both.topic()
    group.join("anna", topic)
    for version in (5, 6):
        group.both.same(DescribeGroupsRequest(groups=[group.id]), version)
    group.both.same(HeartbeatRequest(group_id=group.id, generation_id=2, member_id="anna"), 4)
    group.both.same(SyncGroupRequest(group_id=group.id, generation_id=2, member_id="anna"), 5)
    strangers = [MemberIdentity(member_id="bert"), MemberIdentity(member_id="", group_instance_id="one")]
    group.both.same(LeaveGroupRequest(group_id=group.id, members=strangers), 5)
    group.both.same(LeaveGroupRequest(group_id=group.id, members=[MemberIdentity(member_id="anna")]), 5)
    group.described()


def test_configs_of_a_group_count(group: Group) -> None:
    topic = group.both.topic()
    group.join("anna", topic)
    for value in ("7000", "1", "50000", "x"):
        config = AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=32, resource_name=group.id, configs=[config])
        group.both.same(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    for side in group.both.sides:
        beat = ConsumerGroupHeartbeatRequest(group_id=group.id, member_id="anna", member_epoch=2)
        side.wait_until(beat, 1, lambda answer: answer.heartbeat_interval_ms == 7000)
    group.beat("anna", 2)


def test_a_regular_expression_is_resolved_beside_the_heartbeats(group: Group) -> None:
    prefix = group.both.new_name("match")
    for side in group.both.sides:
        side.create_topic(f"{prefix}-a", 2)
        side.create_topic(f"{prefix}-b", 1)
        side.create_topic(f"x{prefix}", 1)
    group.join("anna", subscribed_topic_regex=f"{prefix}.*")
    for side in group.both.sides:
        beat = ConsumerGroupHeartbeatRequest(group_id=group.id, member_id="anna", member_epoch=1)
        side.wait_until(beat, 1, lambda answer: answer.member_epoch != 1)
    group.described()
    group.beat("anna", 2, owned={f"{prefix}-a": [0, 1], f"{prefix}-b": [0]}, subscribed_topic_regex="")
    group.described()


class Classic:
    """A member that speaks the classic protocol."""

    def __init__(self, group: Group, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.ids: dict[str, str] = {}
        self.generation = 0

    def join(self, **fields: Any) -> Any:
        def build(side: Any) -> JoinGroupRequest:
            return JoinGroupRequest(
                group_id=self.group.id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=45_000,
                member_id=self.ids.get(side.name, ""),
                protocol_type=fields.get("protocol_type", "consumer"),
                protocols=[
                    JoinGroupRequestProtocol(
                        name=fields.get("protocol", "range"), metadata=fields.get("metadata", subscription(self.topic))
                    )
                ],
            )

        answer = self.group.both.same(build, 9, ignoring={"member_id", "leader", "members"})
        for side, each in zip(self.group.both.sides, self.group.both.answers, strict=True):
            if each.member_id:
                self.ids[side.name] = each.member_id
        if not answer.error_code:
            self.generation = answer.generation_id
        return answer

    def sync(self, assignment: bytes | None = None) -> Any:
        from barnabas.wire.messages.sync_group import SyncGroupRequestAssignment

        def build(side: Any) -> SyncGroupRequest:
            given = []
            if assignment is not None:
                given = [SyncGroupRequestAssignment(member_id=self.ids[side.name], assignment=assignment)]
            return SyncGroupRequest(
                group_id=self.group.id,
                generation_id=self.generation,
                member_id=self.ids[side.name],
                protocol_type="consumer",
                protocol_name="range",
                assignments=given,
            )

        return self.group.both.same(build, 5)

    def beat(self) -> Any:
        def build(side: Any) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self.group.id, generation_id=self.generation, member_id=self.ids[side.name]
            )

        return self.group.both.same(build, 4)


def assigned(topic: str, *partitions: int) -> bytes:
    from barnabas.wire.records.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolAssignmentTopicPartition,
    )

    out = bytearray(b"\0\0")
    each = ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(partitions))
    ConsumerProtocolAssignment(assigned_partitions=[each]).encode_into(out, 0)
    return bytes(out)


def described_migration(group: Group) -> None:
    group.described(frozenset({"member_id", "partitions"}))
    group.both.same(DescribeGroupsRequest(groups=[group.id]), 6, ignoring={"member_id"})


def test_a_classic_group_migrates_and_comes_back(group: Group) -> None:
    topic = group.both.topic(2)
    old = Classic(group, topic)
    old.join()
    old.join()
    old.sync(assigned(topic, 0, 1))
    described_migration(group)
    anna = group.join("anna", topic)
    described_migration(group)
    assert old.beat().error_code == 27
    old.join(metadata=subscription(topic))
    described_migration(group)
    old.sync()
    old.beat()
    group.beat("anna", anna.member_epoch)
    second = Classic(group, topic)
    second.join(protocol="other")
    second.join(protocol_type="connect")
    second.join()
    group.commit(topic, 3, "anna", anna.member_epoch)
    group.beat("anna", -1)
    described_migration(group)
    assert old.beat().error_code == 27
    old.join()
    old.sync(assigned(topic, 0, 1))
    described_migration(group)


def test_a_classic_group_that_cannot_migrate(group: Group) -> None:
    topic = group.both.topic(2)
    old = Classic(group, topic)
    old.join(protocol_type="connect")
    old.join(protocol_type="connect")
    group.join("anna", topic)
    other = Group(group.both)
    malformed = Classic(other, topic)
    malformed.join(metadata=b"\0")
    malformed.join(metadata=b"\0")
    other.join("anna", topic)


def test_an_empty_group_changes_its_kind(group: Group) -> None:
    topic = group.both.topic(1)
    group.join("anna", topic)
    group.beat("anna", -1)
    group.listed()
    old = Classic(group, topic)
    old.join()
    group.listed()
    group.join("anna", topic)
    group.listed()
    described_migration(group)
