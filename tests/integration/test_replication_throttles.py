"""New replicas are copied as slowly as they shall be, by their leader or by themselves; in-sync ones are not slowed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from barnabas.testing import Cluster
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.support.replication.watching import describe, read_all, wait_in_sync
from tests.support.waiting import wait_until

MEGABYTE = 1_000_000
RATE = MEGABYTE // 2
SIZE = 2 * MEGABYTE  # four seconds at this rate, less what goes in the first window and the last fetch
LEAST_S = 2.0
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One fetch of a partition is small, so that a rate shows in a copy of a few seconds."""
    config = {"replica.fetch.max.bytes": 100_000, "min.insync.replicas": 1, "offsets.topic.num.partitions": 2}
    with Cluster(brokers=3, config=config) as found:
        yield found


def make_topic(cluster: Cluster, name: str, replicas: list[int], config: Mapping[str, str] | None = None) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
    )
    with cluster.connect() as connection:
        (created,) = connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=20_000)).topics
    assert created.error_code == 0, created.error_message
    wait_in_sync(cluster, name, replicas)


def write(cluster: Cluster, topic: str, size: int = SIZE) -> float:
    """Seconds until all was acknowledged by everybody in sync."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.size": 50_000})
    began = time.monotonic()
    for _ in range(size // 10_000):
        producer.produce(topic, b"x" * 10_000, partition=0)
    assert producer.flush(60) == 0
    return time.monotonic() - began


def alter(cluster: Cluster, kind: ResourceType, name: str, changes: Mapping[str, str | None]) -> None:
    operations = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in changes.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=operations)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(20)


def move(cluster: Cluster, *moves: tuple[str, list[int]]) -> None:
    topics = [
        ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
        for topic, replicas in moves
    ]
    with cluster.connect() as connection:
        answer = connection.request(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=20_000))
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0] * len(moves)


def copied_within(cluster: Cluster, topics: list[str], broker_id: int) -> dict[str, float]:
    """Seconds until the broker's replica of each was in sync."""
    began, took = time.monotonic(), dict[str, float]()

    def is_copied() -> bool:
        for topic in topics:
            if topic not in took and broker_id in describe(cluster, topic)[0].in_sync:
                took[topic] = time.monotonic() - began
        return len(took) == len(topics)

    wait_until(is_copied, f"{topics} are in sync on broker {broker_id}")
    return took


def test_replicas_in_sync_are_not_throttled(cluster: Cluster) -> None:
    """First of all: a partition that was never fetched waits while what others copied exceeds the rate, as in Kafka."""
    make_topic(cluster, "in-sync", [1, 2, 3], {LEADERS: "*", FOLLOWERS: "*"})
    rates = {LEADER_RATE: "100000", FOLLOWER_RATE: "100000"}  # twenty seconds
    for broker_id in cluster.broker_ids:
        alter(cluster, ResourceType.BROKER, str(broker_id), rates)
    assert write(cluster, "in-sync") < 5
    assert sorted(describe(cluster, "in-sync")[0].in_sync) == [1, 2, 3]
    for broker_id in cluster.broker_ids:
        alter(cluster, ResourceType.BROKER, str(broker_id), dict.fromkeys(rates))


def test_a_copy_takes_as_long_as_the_throttle_of_its_leader_or_of_its_follower_says(cluster: Cluster) -> None:
    """Both at once: broker 1 hands out slowly, broker 3 copies slowly; a third topic that no list names is quick."""
    make_topic(cluster, "sent-slowly", [1], {LEADERS: "0:1"})
    make_topic(cluster, "taken-slowly", [2], {FOLLOWERS: "0:3"})
    make_topic(cluster, "quick", [1], {LEADERS: "0:2", FOLLOWERS: "0:1"})
    topics = ["sent-slowly", "taken-slowly", "quick"]
    for topic in topics:
        write(cluster, topic)
    alter(cluster, ResourceType.BROKER, "1", {LEADER_RATE: str(RATE)})
    alter(cluster, ResourceType.BROKER, "3", {FOLLOWER_RATE: str(RATE)})
    move(cluster, ("sent-slowly", [1, 3]), ("taken-slowly", [2, 3]), ("quick", [1, 3]))
    took = copied_within(cluster, topics, 3)
    assert took["quick"] < LEAST_S
    assert took["sent-slowly"] > LEAST_S
    assert took["taken-slowly"] > LEAST_S
    alter(cluster, ResourceType.BROKER, "1", {LEADER_RATE: None})
    alter(cluster, ResourceType.BROKER, "3", {FOLLOWER_RATE: None})


def test_kafka_reassign_partitions_sets_a_throttle_changes_it_and_removes_it(cluster: Cluster, tmp_path: Path) -> None:
    make_topic(cluster, "moved", [1, 2])
    write(cluster, "moved")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [3, 2]}]}))

    tool = partial(reassign, cluster, plan)
    tool("--execute", "--throttle", "1000")
    assert "still in progress" in tool("--verify"), "2 MB at 1 kB/s take half an hour"
    assert sorted(describe(cluster, "moved")[0].in_sync) == [1, 2]
    assert throttles(cluster, "moved") == {
        "1": {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"},
        "2": {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"},
        "3": {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"},
        "moved": {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"},
    }
    tool("--execute", "--additional", "--throttle", str(100 * MEGABYTE))
    wait_in_sync(cluster, "moved", [2, 3])
    tool("--verify")
    assert not throttles(cluster, "moved")


def test_a_move_that_is_under_way_is_cancelled_and_takes_nothing_along(cluster: Cluster, tmp_path: Path) -> None:
    make_topic(cluster, "called-back", [1, 2])
    write(cluster, "called-back")
    plan = tmp_path / "plan.json"
    moves = [{"topic": "called-back", "partition": 0, "replicas": [3]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    copy = Path(cluster.nodes[3].data_dir) / "called-back-0"
    reassign(cluster, plan, "--execute", "--throttle", "1000")
    wait_until(copy.exists, "broker 3 has begun to copy")
    assert sorted(describe(cluster, "called-back")[0].replicas) == [1, 2, 3]
    told = reassign(cluster, plan, "--cancel")
    assert "Successfully cancelled partition reassignment for: called-back-0" in told
    assert describe(cluster, "called-back")[0].replicas == [1, 2]
    assert not throttles(cluster, "called-back")
    wait_until(lambda: not copy.exists(), "broker 3 has given its copy up")
    write(cluster, "called-back", MEGABYTE)
    assert len(read_all(cluster, "called-back", 1)) == (SIZE + MEGABYTE) // 10_000
    assert "None of the specified partition reassignments are active." in reassign(cluster, plan, "--cancel")


def reassign(cluster: Cluster, plan: Path, *words: str) -> str:
    command = [sys.executable, "-m", "barnabas", "reassign-partitions"]
    command += ["--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def throttles(cluster: Cluster, topic: str) -> dict[str, dict[str, str]]:
    """What is set, by broker or topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found: dict[str, dict[str, str]] = {}
    resources = [ConfigResource(ResourceType.BROKER, str(each)) for each in cluster.broker_ids]
    for resource in [*resources, ConfigResource(ResourceType.TOPIC, topic)]:
        configs = admin.describe_configs([resource])[resource].result(20)
        given = {
            name: entry.value
            for name, entry in configs.items()
            if "throttled" in name and entry.value not in (None, "", str(2**63 - 1))
        }
        if given:
            found[resource.name] = given
    return found
