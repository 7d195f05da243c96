"""Several nodes as one cluster: processes that elect a controller, know each other, lose one another and come back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from barnabas.cli.tools.quorum import Look, look, votes_for
from barnabas.client.cluster import Cluster as ClusterOfClients
from barnabas.client.settings import ClientSettings
from barnabas.testing import Cluster
from barnabas.wire.batch import iterate_batches
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.uuids import Uuid
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def three(barnabas_cluster: Cluster) -> Cluster:
    """Three nodes that are brokers and controllers, as users get them for their tests."""
    return barnabas_cluster


def brokers_seen(cluster: Cluster, by: int, *, fenced: bool = False) -> list[int]:
    with cluster.connect(by) as connection:
        answer = connection.request(DescribeClusterRequest(include_fenced_brokers=fenced))
    return sorted(broker.broker_id for broker in answer.brokers)


def wait_for_brokers(cluster: Cluster, expected: list[int], by: int) -> None:
    wait_until(lambda: brokers_seen(cluster, by) == expected, f"broker {by} knows of {expected}")


def leaders(cluster: Cluster, topic: str, by: int) -> dict[int, int]:
    with cluster.connect(by) as connection:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = connection.request(request).topics
    return {each.partition_index: each.leader_id for each in found.partitions}


def test_every_node_knows_all_brokers_and_all_voters(three: Cluster) -> None:
    for broker_id in three.broker_ids:
        wait_for_brokers(three, [1, 2, 3], by=broker_id)
    quorum = three.quorum()
    assert quorum is not None
    assert sorted(voter.replica_id for voter in quorum.current_voters) == [1, 2, 3]
    assert quorum.leader_id in (1, 2, 3)


def test_any_broker_takes_orders_for_the_controller(three: Cluster) -> None:
    controller = three.controller_id()
    asked = next(each for each in three.broker_ids if each != controller)
    three_topics = [f"orders-{broker_id}" for broker_id in three.broker_ids]
    for broker_id, topic in zip(three.broker_ids, three_topics, strict=True):
        create(three, topic, by=broker_id)
    for topic in three_topics:
        wait_until(lambda: len(leaders(three, topic, asked)) == 6, f"{topic} is known to broker {asked}")  # noqa: B023
        assert sorted(set(leaders(three, topic, asked).values())) == [1, 2, 3]


def create(cluster: Cluster, topic: str, by: int, partitions: int = 6) -> None:
    from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    with cluster.connect(by) as connection:
        (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
    assert created.error_code == 0, created.error_message


def test_what_many_clients_ask_for_is_committed_together(three: Cluster) -> None:
    """Through a broker that is not the active controller; one client's requests keep their order."""
    broker = next(each for each in three.broker_ids if each != three.controller_id())

    def create(number: int) -> list[int]:
        found = []
        with three.connect(broker) as connection:
            for step in range(3):
                topic = CreatableTopic(name=f"many-{number}-{step}", num_partitions=1, replication_factor=1)
                found += [each.error_code for each in connection.request(CreateTopicsRequest(topics=[topic])).topics]
            again = CreatableTopic(name=f"many-{number}-0", num_partitions=1, replication_factor=1)
            found += [each.error_code for each in connection.request(CreateTopicsRequest(topics=[again])).topics]
        return found

    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(create, range(12))) == [[0, 0, 0, ErrorCode.TOPIC_ALREADY_EXISTS]] * 12


def test_a_partition_is_served_by_its_leader_alone(three: Cluster) -> None:
    create(three, "led", by=1)
    wait_until(lambda: len(leaders(three, "led", 1)) == 6, "the topic is known")
    led_by = leaders(three, "led", 1)
    asked: Any = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="led", partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1) for index in led_by]
            )
        ],
    )
    expected = {
        index: ErrorCode.NONE if leader == 1 else ErrorCode.NOT_LEADER_OR_FOLLOWER for index, leader in led_by.items()
    }

    def answered() -> dict[int, int]:
        with three.connect(1) as connection:
            (topic,) = connection.request(asked).topics
        return {partition.partition_index: partition.error_code for partition in topic.partitions}

    wait_until(lambda: answered() == expected, "the leader serves what it leads, and nobody else does")


def test_followers_of_an_idle_quorum_hear_of_commits_with_the_next_record(three: Cluster) -> None:
    """They learn of each idle record once, and not a second time when it is committed."""
    leader = three.controller_id()
    quorum = three.quorum()
    assert quorum is not None
    partition = FetchPartition(
        current_leader_epoch=quorum.leader_epoch,
        last_fetched_epoch=quorum.leader_epoch,
        fetch_offset=quorum.high_watermark,
        high_watermark=quorum.high_watermark,
    )
    request = FetchRequest(
        cluster_id=three.cluster_id,
        max_wait_ms=5000,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="__cluster_metadata", topic_id=Uuid(bytes(15) + b"\1"), partitions=[partition])],
    )
    brought: list[bool] = []
    with three.connect_controller(leader) as connection:
        while len(brought) < 30 and not all([*brought[-5:], len(brought) >= 5]):
            answer = connection.request(request, 18).responses[0].partitions[0]
            assert answer.error_code == 0
            brought.append(len(answer.records) > 0)
            partition.high_watermark = answer.high_watermark
            for _, header in iterate_batches(memoryview(answer.records)):
                partition.fetch_offset = header.last_offset + 1
    assert all(brought[-5:]), brought


def test_a_killed_controller_is_replaced_and_comes_back_at_once(three: Cluster) -> None:
    killed = three.controller_id()
    three.kill(killed)
    successor = three.controller_id(other_than=killed)
    other = next(each for each in three.running if each != successor)
    create(three, "after-the-kill", by=other)
    said = len(three.nodes[killed].log())
    three.start(killed)
    # Its directory says that the former process is gone: nobody waits for the session of that one.
    assert "cannot register yet" not in three.nodes[killed].log()[said:]
    for broker_id in three.broker_ids:
        wait_for_brokers(three, [1, 2, 3], by=broker_id)
    wait_until(lambda: bool(leaders(three, "after-the-kill", killed)), "the topic is known to the one that was away")


def test_who_voted_for_a_new_leader_is_read_from_its_first_record(three: Cluster) -> None:
    """What `barnabas quorum watch` tells of an election."""
    with ClusterOfClients(ClientSettings.from_properties({"bootstrap.servers": three.bootstrap_servers})) as client:
        before = look(client)
        assert before.leader in three.broker_ids
        assert votes_for(client, before, before) == ()
        three.kill(before.leader)
        try:
            three.controller_id(other_than=before.leader)
            now = look(client)
            assert sorted(votes_for(client, now, before)) == sorted(three.running)
        finally:
            three.start(before.leader)


def test_a_controller_that_stops_in_order_hands_the_lead_and_its_brokership_over(three: Cluster) -> None:
    stopped = three.controller_id()
    three.stop(stopped)
    successor = three.controller_id(other_than=stopped)
    left = [each for each in three.broker_ids if each != stopped]
    wait_for_brokers(three, left, by=successor)
    assert "stops without a controlled shutdown" not in three.nodes[stopped].log()
    three.start(stopped)
    wait_for_brokers(three, [1, 2, 3], by=successor)


def test_a_controller_that_hangs_is_replaced_and_follows_when_it_goes_on(three: Cluster) -> None:
    paused = three.controller_id()
    three.pause(paused)
    try:
        successor = three.controller_id(other_than=paused)
        create(three, "while-it-hangs", by=successor)
    finally:
        three.resume(paused)
    wait_until(lambda: "while-it-hangs" in topics_of(three, paused), "the one that hung knows the topic")
    wait_for_brokers(three, [1, 2, 3], by=successor)


def topics_of(cluster: Cluster, by: int) -> list[str | None]:
    with cluster.connect(by) as connection:
        return [topic.name for topic in connection.request(MetadataRequest(topics=None)).topics]


def test_brokers_of_their_own_follow_controllers_of_their_own() -> None:
    with Cluster(brokers=2, controllers=1, racks=("a", "b")) as cluster:
        for broker_id in (101, 102):
            wait_for_brokers(cluster, [101, 102], by=broker_id)
        create(cluster, "orders", by=102)
        wait_until(lambda: sorted(set(leaders(cluster, "orders", 101).values())) == [101, 102], "both lead")
        with cluster.connect(101) as connection:
            answer = connection.request(DescribeClusterRequest())
        assert sorted((broker.broker_id, broker.rack) for broker in answer.brokers) == [(101, "a"), (102, "b")]
        quorum = cluster.quorum()
        assert quorum is not None
        assert [voter.replica_id for voter in quorum.current_voters] == [1]
        assert sorted(observer.replica_id for observer in quorum.observers) == [101, 102]
        cluster.restart(1)
        create(cluster, "after-the-restart", by=101)
        cluster.kill(102)
        cluster.start(102)
        wait_for_brokers(cluster, [101, 102], by=101)


def test_that_nobody_leads_is_seen_in_time_by_who_watches(three: Cluster) -> None:
    """A broker that finds no controller keeps the question for as long as it may: the watch does not."""
    properties = {"bootstrap.servers": three.bootstrap_servers, "request.timeout.ms": "1000"}
    settings = ClientSettings.from_properties(properties | {"default.api.timeout.ms": "1000"})
    with ClusterOfClients(settings) as client:
        leader = look(client).leader
        paused = [leader, next(each for each in three.broker_ids if each != leader)]
        try:
            for broker_id in paused:
                three.pause(broker_id)
            wait_until(lambda: look(client) == Look(), "the watch sees that nobody leads")
        finally:
            for broker_id in paused:
                three.resume(broker_id)
        wait_until(lambda: look(client).leader > 0, "the watch sees who leads then")


def test_configured_voters_move_into_the_log_when_the_quorum_is_upgraded(three: Cluster) -> None:
    from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
    from barnabas.wire.uuids import ZERO_UUID

    upgrade = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)]
    )

    def is_upgraded() -> bool:
        """Voters tell the leader of themselves within two seconds of its election; until then it refuses."""
        with three.connect() as connection:
            return bool(connection.request(upgrade).error_code == 0)

    wait_until(is_upgraded, "kraft.version is 1")
    quorum = three.quorum()
    assert quorum is not None
    assert ZERO_UUID not in [voter.replica_directory_id for voter in quorum.current_voters]
    three.kill(quorum.leader_id)
    three.controller_id(other_than=quorum.leader_id)
    three.start(quorum.leader_id)
    state = three.nodes[quorum.leader_id].data_dir / "__cluster_metadata-0" / "quorum-state"
    wait_until(lambda: '"data_version":1' in state.read_text(), "quorum-state has the version of voters in the log")
