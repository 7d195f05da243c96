"""One node of ours among two of Apache Kafka's: it follows, it leads, and each begins anew with the other's snapshot.

Two JVMs, so only with BARNABAS_HAND_OVER=1: `make mixed`.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.raft.batches import read_batches
from barnabas.node.raft.snapshots import list_snapshots, read_snapshot
from tests.support import reference
from tests.support.chaos.foreign import ForeignCluster
from tests.support.replication.watching import Acknowledged, batches, describe, read_all, wait_in_sync
from tests.support.waiting import wait_until

OURS, KAFKAS = 1, [2, 3]
NODES = [OURS, *KAFKAS]
PARTITIONS = 3
TRIES_MAX = 12
CONFIG = {
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 6000,
    "metadata.log.max.record.bytes.between.snapshots": 6000,
}

pytestmark = pytest.mark.skipif(
    not os.environ.get("BARNABAS_HAND_OVER"), reason="a minute: `make mixed`, or BARNABAS_HAND_OVER=1"
)


@pytest.mark.timeout(600)
def test_one_of_ours_among_two_of_kafkas(tmp_path: Path) -> None:
    if reason := reference.available():
        pytest.skip(reason)
    with ForeignCluster(KAFKAS, tmp_path, brokers=len(NODES), config=CONFIG) as cluster:
        cluster.create_topic("orders", PARTITIONS, 3)
        wait_in_sync(cluster, "orders", NODES)
        with Acknowledged(cluster, "orders", PARTITIONS) as producer:
            producer.goes_on()
            ours_leads(cluster)
            producer.goes_on()
            kafka_leads(cluster, producer)
            producer.goes_on()
            cluster.kill(cluster.controller_id())
            decide(cluster, "one-is-killed")
            cluster.start(*(each for each in NODES if each not in cluster.running))
            wait_in_sync(cluster, "orders", NODES)
            producer.goes_on()
        assert not producer.failed
        assert read_all(cluster, "orders", PARTITIONS) == producer.acknowledged
        assert cluster.running == NODES, "a Kafka node exits at the first wrong byte"
        require_one_image(cluster)


def ours_leads(cluster: ForeignCluster) -> None:
    let_lead(cluster, [OURS])
    decide(cluster, "ours-leads")
    cluster.restart(KAFKAS[0])
    wait_in_sync(cluster, "orders", NODES)
    begin_anew(cluster, KAFKAS[0], [OURS])
    decide(cluster, "kafka-is-back")


def kafka_leads(cluster: ForeignCluster, producer: Acknowledged) -> None:
    begin_anew(cluster, OURS, KAFKAS)
    decide(cluster, "ours-is-back")
    paused = let_lead(cluster, KAFKAS)
    cluster.pause(paused)
    try:
        assert cluster.controller_id(other_than=paused) != paused
        decide(cluster, "kafka-is-paused")
        producer.goes_on()
    finally:
        cluster.resume(paused)
    wait_in_sync(cluster, "orders", NODES)


def decide(cluster: ForeignCluster, topic: str) -> None:
    """Every broker knows what any of them was asked for."""
    wait_until(lambda: cluster.quorum() is not None, "somebody leads")
    cluster.create_topic(topic, 1, 3)
    for node_id in cluster.running:
        if not cluster.nodes[node_id].paused:
            wait_until(lambda: bool(describe(cluster, topic, node_id)), f"{topic} is known to node {node_id}")  # noqa: B023


def let_lead(cluster: ForeignCluster, wanted: list[int]) -> int:
    for _ in range(TRIES_MAX):
        leader = cluster.controller_id()
        if leader in wanted:
            return leader
        cluster.pause(leader)
        try:
            cluster.controller_id(other_than=leader)
        finally:
            cluster.resume(leader)
        wait_in_sync(cluster, "orders", NODES)
    raise AssertionError(f"none of {wanted} was elected in {TRIES_MAX} elections")


def begin_anew(cluster: ForeignCluster, node_id: int, leaders: list[int]) -> None:
    """The node loses its disk while one of these leads: what its log begins with is the leader's snapshot."""
    leader = cluster.nodes[let_lead(cluster, leaders)].data_dir / "__cluster_metadata-0"
    for number in range(40):
        if made_snapshots(leader):
            break
        cluster.create_topic(f"fills-{node_id}-{number}", 3, 3)
    wait_until(lambda: any(made_snapshots(leader)), "a snapshot of the leader's")
    cluster.kill(node_id)
    shutil.rmtree(cluster.nodes[node_id].data_dir)
    cluster.start(node_id)
    metadata = cluster.nodes[node_id].data_dir / "__cluster_metadata-0"
    wait_until(lambda: any(made_snapshots(metadata)), "the leader's snapshot is here")
    wait_until(lambda: bool(batches(metadata)), "the log goes on behind it")
    assert min(batches(metadata)) > 0
    wait_in_sync(cluster, "orders", NODES)


def made_snapshots(directory: Path) -> list[Path]:
    return [each for each in directory.glob("*.checkpoint") if not each.name.startswith("0" * 20)]


def require_one_image(cluster: ForeignCluster) -> None:
    """What is committed is the same to the byte in all logs, and each makes the same of it, snapshots included."""
    quorum = cluster.quorum()
    assert quorum is not None
    committed = quorum.high_watermark
    directories = {each: cluster.nodes[each].data_dir / "__cluster_metadata-0" for each in NODES}
    for node_id, directory in directories.items():
        wait_until(lambda: end_offset(directory) >= committed, f"node {node_id} has what is committed")  # noqa: B023
    logs = [batches(each) for each in directories.values()]
    for log in logs[1:]:
        common = {offset for offset in log.keys() & logs[0].keys() if offset < committed}
        assert len(common) > 3
        assert all(log[offset] == logs[0][offset] for offset in common)
    first, *others = (image_of(each, committed) for each in directories.values())
    assert {"orders", "ours-leads", "kafka-is-back", "kafka-is-paused", "one-is-killed"} <= set(first.topics)
    for other in others:
        assert other == first
    for log, directory in zip(logs, directories.values(), strict=True):
        for snapshot in list_snapshots(directory):
            if snapshot.end_offset and 0 in log:
                replayed = image_of(directory, snapshot.end_offset, from_snapshot=False)
                assert image_of(directory, snapshot.end_offset) == replayed


def image_of(directory: Path, end: int, *, from_snapshot: bool = True) -> MetadataImage:
    """As a node would have it that starts on this directory and hears of commits up to `end`."""
    image, start = MetadataImage(), 0
    if found := [each for each in list_snapshots(directory) if from_snapshot and 0 < each.end_offset <= end]:
        start = max(found).end_offset
        image.replay_all(read_snapshot(directory / max(found).file_name).records)
    for offset, data in sorted(batches(directory).items()):
        for _, batch in read_batches(data):
            if start <= offset and batch.last_offset < end and not batch.is_control:
                image.replay_all(batch.records)
    return replace(image, offset=end, epoch=0)


def end_offset(directory: Path) -> int:
    return max(
        (batch.last_offset + 1 for data in batches(directory).values() for _, batch in read_batches(data)), default=0
    )
