from __future__ import annotations

import pytest

from barnabas.core.controller.elections import PREFERRED, UNCLEAN, elect_leaders
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.records.metadata import PartitionChangeRecord
from barnabas.wire.schema import Record

from .conftest import ClusterMaker, identity


def elect(
    image: MetadataImage, kind: int, wanted: dict[str, list[int]] | None
) -> tuple[list[Record], dict[str, list[tuple[int, int]]]]:
    asked = None if wanted is None else [TopicPartitions(topic=name, partitions=at) for name, at in wanted.items()]
    decision = elect_leaders(image, ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    results = decision.response.replica_election_results
    return list(decision.records), {
        each.topic: [(it.partition_id, it.error_code) for it in each.partition_result] for each in results
    }


def led_by(image: MetadataImage, leader: int, isr: list[int]) -> None:
    image.replay(PartitionChangeRecord(topic_id=identity(1), partition_id=0, leader=leader, isr=isr))


def test_the_preferred_replica_leads_again(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2], [1, 2]]})
    led_by(image, 2, [1, 2])
    records, told = elect(image, PREFERRED, {"t": [0, 1, 9], "unknown": [0]})
    assert records == [PartitionChangeRecord(topic_id=identity(1), partition_id=0, leader=1)]
    assert told == {
        "t": [(0, 0), (1, ErrorCode.ELECTION_NOT_NEEDED), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        "unknown": [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    }
    assert elect(image, PREFERRED, None) == (records, {"t": [(0, 0)]})


def test_a_preferred_replica_that_is_not_in_sync_or_not_there_does_not_lead(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    led_by(image, 2, [2])
    refused = {"t": [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]}
    assert elect(image, PREFERRED, {"t": [0]}) == ([], refused)
    image = cluster([1, 2], fenced=[1], topics={"t": [[1, 2]]})
    led_by(image, 2, [1, 2])
    assert elect(image, PREFERRED, {"t": [0]}) == ([], refused)


def test_an_unclean_election_takes_who_is_there(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], fenced=[1], topics={"t": [[1, 2]]})
    led_by(image, -1, [1])
    changed = PartitionChangeRecord(topic_id=identity(1), partition_id=0, leader=2, isr=[2], leader_recovery_state=1)
    assert elect(image, UNCLEAN, {"t": [0]}) == ([changed], {"t": [(0, 0)]})
    image = cluster([1, 2], fenced=[1, 2], topics={"t": [[1, 2]]})
    led_by(image, -1, [1])
    assert elect(image, UNCLEAN, {"t": [0]}) == ([], {"t": [(0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]})


def test_another_kind_of_election_is_refused_unless_nothing_is_asked_for(cluster: ClusterMaker) -> None:
    image = cluster([1], topics={"t": [[1]]})
    with pytest.raises(KafkaError):
        elect(image, 2, {"t": [0]})
    assert elect(image, 2, {}) == ([], {})


def test_refusals_have_kafkas_words(cluster: ClusterMaker) -> None:
    image = cluster([1, 2], fenced=[1], topics={"t": [[1, 2], [2, 1]]})
    led_by(image, 2, [2])
    asked = [TopicPartitions(topic="t", partitions=[0, 1, 7]), TopicPartitions(topic="unknown", partitions=[0])]
    decision = elect_leaders(image, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=asked))
    results = decision.response.replica_election_results
    assert [it.error_message for each in results for it in each.partition_result] == [
        "The preferred leader was not available.",
        "Leader election not needed for topic partition.",
        "No such partition as t-7",
        "No such topic as unknown",
    ]
