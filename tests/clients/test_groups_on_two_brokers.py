"""A group's coordinator, the keeper of a share group's state and the leader of what it works on are other brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.client.admin.share_groups import share_offsets
from barnabas.client.cluster import Cluster as Client
from barnabas.client.settings import ClientSettings
from barnabas.client.share_consumer import ShareConsumer
from barnabas.core.coordinator.partitioning import partition_for
from barnabas.testing import Cluster
from barnabas.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.waiting import wait_until

GROUP_CONFIG = 32
INTERNAL_PARTITIONS = 4
RECORDS = 20
CONFIG = {
    "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
    "share.coordinator.state.topic.num.partitions": INTERNAL_PARTITIONS,
    "offsets.topic.replication.factor": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.assignment.interval.ms": 0,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, controllers=1, config=CONFIG) as found:
        yield found


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[Client]:
    found = Client(ClientSettings.from_properties({}, bootstrap_servers=cluster.bootstrap_servers))
    yield found
    found.close()


def create_topic(cluster: Cluster, name: str) -> None:
    """Its partition 0 is with the one broker, 1 with the other."""
    places = [
        CreatableReplicaAssignment(partition_index=at, broker_ids=[each]) for at, each in enumerate(cluster.broker_ids)
    ]
    wanted = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=places)
    with cluster.connect() as connection:
        (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)).topics
    assert created.error_code == 0, created


def produce(cluster: Cluster, topic: str) -> set[bytes]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    return {str(number).encode() for number in range(RECORDS)}


def begin_at_the_start(client: Client, group: str) -> None:
    altered = [AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")]
    resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=group, configs=altered)
    answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


@pytest.mark.parametrize("number", [0, 1])
def test_consumers_read_from_both_brokers_whichever_coordinates_them(cluster: Cluster, number: int) -> None:
    topic, group = f"read-{number}", _coordinated_by("readers", number)
    create_topic(cluster, topic)
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    members = [Consumer(settings) for _ in range(2)]
    read: set[bytes | None] = set()

    def is_through() -> bool:
        for member in members:
            read.update(each.value() for each in member.consume(100, timeout=0.05) if each.error() is None)
        return read == expected and [len(member.assignment()) for member in members] == [1, 1]

    for member in members:
        member.subscribe([topic])
    try:
        expected: set[bytes | None] = {*produce(cluster, topic)}
        wait_until(is_through, "both members read", 30)
    finally:
        for member in members:
            member.close()


@pytest.mark.parametrize("number", [0, 1])
def test_a_share_group_tells_its_lag_of_partitions_that_other_brokers_lead(
    cluster: Cluster, client: Client, number: int
) -> None:
    topic, group = f"work-{number}", _coordinated_by("workers", number)
    create_topic(cluster, topic)
    begin_at_the_start(client, group)
    expected = produce(cluster, topic)
    settings = ClientSettings.from_properties({}, bootstrap_servers=cluster.bootstrap_servers)
    done: set[bytes | None] = set()

    def lags() -> dict[int, int]:
        return {each.partition: each.lag for each in share_offsets(client, group)}

    with ShareConsumer(settings, group, [topic]) as worker:

        def is_through() -> bool:
            for record in worker.poll(100):
                worker.ack(record)
                done.add(record.value)
            worker.commit()
            return done == expected

        wait_until(is_through, "all work", 30)
        wait_until(lambda: lags() == {0: 0, 1: 0}, "nothing is left", 10)
    produce(cluster, topic)
    assert lags() == {0: RECORDS // 2, 1: RECORDS // 2}


def test_what_one_broker_has_is_taken_while_the_other_is_away() -> None:
    """The worker waited for a leader of the first partition, and never came to the second."""
    factors = {key: 2 for key in CONFIG if key.endswith("replication.factor")}
    with Cluster(brokers=2, controllers=1, config=CONFIG | factors) as cluster:
        create_topic(cluster, "half")
        settings = ClientSettings.from_properties({}, bootstrap_servers=cluster.bootstrap_servers)
        admin = Client(settings)
        begin_at_the_start(admin, "halves")
        with ShareConsumer(settings, "halves", ["half"]) as worker:
            wait_until(lambda: worker.poll(100) == [] and len(worker.assignment) == 2, "both are assigned", 30)
            cluster.kill(cluster.broker_ids[0])

            def is_away() -> bool:
                worker.poll(100)
                admin.forget_leader("half")
                return admin.topic("half").partitions[0].leader < 0

            wait_until(is_away, "nobody leads the first partition", 30)
            worker.poll(100)
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
            producer.produce("half", b"task", partition=1)
            assert producer.flush(30) == 0
            wait_until(lambda: [each.value for each in worker.poll(300)] == [b"task"], "the second broker's task", 30)
        admin.close()


def _coordinated_by(kind: str, number: int) -> str:
    """A group of partition 0 or 1 of __consumer_offsets, which different brokers lead."""
    names = (f"{kind}-{each}" for each in range(1000))
    return next(name for name in names if partition_for(name, INTERNAL_PARTITIONS) == number)


def test_partitions_of_internal_topics_are_with_both_brokers(client: Client) -> None:
    """What the tests above rest on."""
    leaders = {at: part.leader for at, part in client.topic("__consumer_offsets").partitions.items()}
    assert leaders[0] != leaders[1]
