"""A broker is killed that coordinates a consumer group, a share group and a streams group, keeps the share group's
state and leads what they work on. The other brokers go on: nothing is lost, and nothing that was done comes back.

BARNABAS_FAILOVERS=9 kills that many brokers, in turn (`make failover`); without it nothing is done.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.client.cluster import Cluster as Client
from barnabas.client.errors import Refused
from barnabas.client.settings import ClientSettings
from barnabas.client.share_consumer import ShareConsumer
from barnabas.core.coordinator.partitioning import partition_for
from barnabas.core.share.records import ShareKey
from barnabas.testing import Cluster
from barnabas.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from tests.support.replication.watching import wait_in_sync, wait_led
from tests.support.waiting import wait_until

FAILOVERS = int(os.environ.get("BARNABAS_FAILOVERS", "0"))
INTERNAL_PARTITIONS = 6
INTERNAL = ("__consumer_offsets", "__share_group_state")
RECORDS = 60
LIMIT_S = 60
CONFIG = {
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 300,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
    "share.coordinator.state.topic.num.partitions": INTERNAL_PARTITIONS,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, controllers=1, config=CONFIG) as found:
        with found.connect() as connection:
            for kind, key in ((0, "any"), (2, f"any:{'A' * 22}:0")):
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                wait_until(lambda asked=request: not connection.request(asked).coordinators[0].error_code)  # type: ignore[misc]
        for topic in INTERNAL:
            wait_in_sync(found, topic, found.broker_ids)
        yield found


class Stage:
    """A topic and groups of one broker."""

    def __init__(self, cluster: Cluster, victim: int, number: int) -> None:
        self.cluster, self.victim = cluster, victim
        self.topic = f"tasks-{number}"
        others = [each for each in cluster.broker_ids if each != victim]
        assignments = [CreatableReplicaAssignment(partition_index=at, broker_ids=[victim, *others]) for at in (0, 1)]
        wanted = CreatableTopic(
            name=self.topic, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=[]
        )
        with cluster.connect() as connection:
            (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)).topics
        assert created.error_code == 0, created
        self.topic_id = created.topic_id
        wait_in_sync(cluster, self.topic, cluster.broker_ids)
        self.client = Client(ClientSettings.from_properties({}, bootstrap_servers=cluster.bootstrap_servers))
        self.leaders = {
            topic: {at: part.leader for at, part in self.client.topic(topic).partitions.items()} for topic in INTERNAL
        }
        self.consumers = self._name("consumers", self._is_coordinated)
        self.streams = self._name("streams", self._is_coordinated)
        self.shares = self._name("shares", lambda group: self._is_coordinated(group) and self._is_kept(group))
        self._configure(self.shares, "share.auto.offset.reset", "earliest")

    def _name(self, kind: str, fits: Callable[[str], bool]) -> str:
        return next(group for number in range(10_000) if fits(group := f"{kind}-{self.topic}-{number}"))

    def _is_coordinated(self, group: str) -> bool:
        return self.leaders[INTERNAL[0]][partition_for(group, INTERNAL_PARTITIONS)] == self.victim

    def _is_kept(self, group: str) -> bool:
        key = ShareKey(group, self.topic_id, 0).coordinator_key
        return self.leaders[INTERNAL[1]][partition_for(key, INTERNAL_PARTITIONS)] == self.victim

    def _configure(self, group: str, key: str, value: str) -> None:
        altered = [AlterableConfig(name=key, config_operation=0, value=value)]
        resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=altered)
        answer = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0

    def produce(self, name: str) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "acks": "all", "log_level": 0})
        for number in range(RECORDS):
            producer.produce(self.topic, f"{name}-{number}".encode(), partition=number % 2)
        assert producer.flush(LIMIT_S) == 0


class StreamsMember:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.epoch = 0
        self.tasks: Any = []

    def beat(self) -> None:
        joins = self.epoch == 0
        topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=[self._stage.topic])])
        request = StreamsGroupHeartbeatRequest(
            group_id=self._stage.streams,
            member_id="anna",
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            topology=topology if joins else None,
            process_id="process" if joins else None,
            active_tasks=self.tasks if joins else None,
            standby_tasks=[] if joins else None,
            warmup_tasks=[] if joins else None,
        )
        answer = self._stage.client.ask_coordinator("group", self._stage.streams, request)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = answer.active_tasks

    def described(self) -> Any:
        request = StreamsGroupDescribeRequest(group_ids=[self._stage.streams])
        return self._stage.client.ask_coordinator("group", self._stage.streams, request).groups[0]


class Workers:
    """Two of a share group. A record is done when it was acknowledged and the commit after it was not refused."""

    def __init__(self, stage: Stage) -> None:
        settings = ClientSettings.from_properties({}, bootstrap_servers=stage.cluster.bootstrap_servers)
        self._members = [ShareConsumer(settings, stage.shares, [stage.topic]) for _ in range(2)]
        self._stage = stage
        self.seen: Counter[bytes | None] = Counter()
        self.done: set[bytes | None] = set()

    def work(self) -> None:
        for member in self._members:
            records = member.poll(100)
            for record in records:
                assert record.value not in self.done, f"{record.value!r} was done, and came again"
                self.seen[record.value] += 1
                member.ack(record)
            try:
                member.commit()
                self.done.update(record.value for record in records)
            except Refused:
                pass  # these may come again, or may not

    def lag(self) -> int:
        """Of records that nobody has said to be done."""
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self._stage.shares, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[group])
        answer = self._stage.client.ask_coordinator("group", self._stage.shares, request).groups[0]
        return sum(abs(part.lag) for topic in answer.topics for part in topic.partitions)

    def close(self) -> None:
        for member in self._members:
            member.close()


class Readers:
    """Two of a consumer group, which commit what they have read."""

    def __init__(self, stage: Stage) -> None:
        settings = {
            "bootstrap.servers": stage.cluster.bootstrap_servers,
            "group.id": stage.consumers,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self._members = [Consumer(settings) for _ in range(2)]
        self.read: set[bytes] = set()
        for member in self._members:
            member.subscribe([stage.topic])

    def work(self) -> None:
        for member in self._members:
            for message in member.consume(100, timeout=0.05):
                if message.error() is None:
                    self.read.add(message.value())

    def assignments(self) -> list[int]:
        return [len(member.assignment()) for member in self._members]

    def close(self) -> None:
        for member in self._members:
            member.close()


@pytest.mark.skipif(not FAILOVERS, reason="brokers are killed with BARNABAS_FAILOVERS=3")
@pytest.mark.timeout(60 + 60 * FAILOVERS)
def test_groups_of_all_kinds_go_on_when_their_broker_is_killed(cluster: Cluster) -> None:
    for number in range(FAILOVERS):
        victim = cluster.broker_ids[number % 3]
        fail_over(cluster, victim, number)
        cluster.start(victim)
        for topic in INTERNAL if number + 1 < FAILOVERS else ():
            wait_in_sync(cluster, topic, cluster.broker_ids)


def fail_over(cluster: Cluster, victim: int, number: int) -> None:
    stage = Stage(cluster, victim, number)
    streams, workers, readers = StreamsMember(stage), Workers(stage), Readers(stage)

    def is_through(*names: str) -> bool:
        expected = {f"{name}-{at}".encode() for name in names for at in range(RECORDS)}
        workers.work()
        readers.work()
        return workers.seen.keys() >= expected and readers.read >= expected and workers.lag() == 0

    def both_read() -> bool:
        readers.work()
        return readers.assignments() == [1, 1]

    try:
        stage.produce("before")
        streams.beat()
        wait_until(lambda: is_through("before"), "all work before the kill", LIMIT_S)
        wait_until(both_read, "both read", LIMIT_S)
        epoch, tasks = streams.epoch, streams.tasks
        assert tasks
        stage.produce("during")
        workers.work()
        cluster.kill(victim)
        wait_led(cluster, stage.topic, by_none_of=[victim])
        stage.produce("after")
        wait_until(lambda: is_through("during", "after"), "all work after the kill", LIMIT_S)
        streams.beat()
        assert (streams.epoch, streams.tasks) == (epoch, tasks), "the streams group was forgotten"
        described = streams.described()
        assert (described.group_state, len(described.members)) == ("Stable", 1)
        assert readers.assignments() == [1, 1]
    finally:
        readers.close()
        workers.close()
        stage.client.close()
