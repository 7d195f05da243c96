"""Elections, reassignments, and taking nodes out, on a cluster of one: what is possible, and the errors of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.wire.uuids import ZERO_UUID, Uuid

PREFERRED, UNCLEAN = 0, 1
OTHER = Uuid.parse("AAAAAAAAAAAAAAAAAAABBg")


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (1, 2), (1, -1), (2, 0), (2, 1), (2, 7)])
def test_leaders_are_elected(both: Any, version: int, kind: int) -> None:
    topic = both.topic(2)
    for wanted in (
        {topic: [0, 1]},
        {topic: [0, 0]},
        {topic: [7]},
        {"not-there": [0]},
        {topic: [0], "not-there": [0]},
        {},
    ):
        partitions = [TopicPartitions(topic=name, partitions=each) for name, each in wanted.items()]
        options = {"election_type": kind} if version >= 1 else {}
        both.same(ElectLeadersRequest(topic_partitions=partitions, timeout_ms=5_000, **options), version)


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_leaders_of_everything_are_elected(both: Any, kind: int) -> None:
    both.topic(2)
    request = ElectLeadersRequest(topic_partitions=None, election_type=kind, timeout_ms=5_000)
    both.same(request, 2)
    both.same(ElectLeadersRequest(topic_partitions=[], election_type=kind, timeout_ms=0), 2)


def reassign(both: Any, version: int, topic: str, wanted: dict[int, list[int] | None], **options: Any) -> Any:
    partitions = [ReassignablePartition(partition_index=index, replicas=each) for index, each in wanted.items()]
    topics = [ReassignableTopic(name=topic, partitions=partitions)]
    return both.same(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5_000, **options), version)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("replicas", [[1], None, [], [2], [1, 2], [1, 1], [-1], [1, -2]])
def test_partitions_are_reassigned(both: Any, version: int, replicas: list[int] | None) -> None:
    topic = both.topic(2)
    reassign(both, version, topic, {0: replicas})
    reassign(both, version, topic, {0: replicas, 1: [1], 7: [1]})
    reassign(both, version, "not-there", {0: replicas})
    described = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    both.settled(described, 12)


@pytest.mark.parametrize("allowed", [True, False])
def test_the_replication_factor_may_be_held(both: Any, allowed: bool) -> None:
    topic = both.topic(1)
    reassign(both, 1, topic, {0: [1]}, allow_replication_factor_change=allowed)
    reassign(both, 1, topic, {0: [1, 2]}, allow_replication_factor_change=allowed)
    both.same(AlterPartitionReassignmentsRequest(topics=[], timeout_ms=5_000), 1)


def test_topics_and_partitions_that_are_there_twice(both: Any) -> None:
    topic = both.topic(1)
    one = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
    twice = ReassignableTopic(name=topic, partitions=[*one.partitions, *one.partitions])
    both.same(AlterPartitionReassignmentsRequest(topics=[one, one], timeout_ms=5_000), 1)
    both.same(AlterPartitionReassignmentsRequest(topics=[twice], timeout_ms=5_000), 1)


def test_reassignments_are_listed(both: Any) -> None:
    topic = both.topic(2)
    asked = [None, [], [(topic, [0, 1])], [(topic, [9])], [("not-there", [0])], [(topic, []), ("not-there", [])]]
    for wanted in asked:
        topics = wanted and [ListPartitionReassignmentsTopics(name=name, partition_indexes=at) for name, at in wanted]
        both.same(ListPartitionReassignmentsRequest(topics=topics, timeout_ms=5_000), 0)


@pytest.mark.parametrize("broker_id", [2, 99, -1])
def test_a_broker_that_is_not_registered_cannot_be_taken_out(both: Any, broker_id: int) -> None:
    both.same(UnregisterBrokerRequest(broker_id=broker_id), 0)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    "fields",
    [
        {"voter_id": -1},
        {"cluster_id": "another"},
        {"voter_directory_id": ZERO_UUID},
        {"listeners": []},
        {"voter_id": 1},
    ],
)
def test_voters_are_not_added(both: Any, version: int, fields: dict[str, Any]) -> None:
    listeners = [Listener(name="CONTROLLER", host="127.0.0.1", port=1)]
    options = {"cluster_id": None, "voter_id": 3, "voter_directory_id": OTHER, "listeners": listeners} | fields
    both.same(AddRaftVoterRequest(timeout_ms=2_000, **options), version)


@pytest.mark.parametrize(
    "fields", [{}, {"voter_id": -1}, {"cluster_id": "another"}, {"voter_directory_id": ZERO_UUID}, {"voter_id": 1}]
)
def test_voters_are_not_removed(both: Any, fields: dict[str, Any]) -> None:
    options = {"cluster_id": None, "voter_id": 3, "voter_directory_id": OTHER} | fields
    both.same(RemoveRaftVoterRequest(**options), 0)
