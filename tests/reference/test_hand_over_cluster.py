"""Three nodes of ours stop in order, Apache Kafka starts on their directories, and ours go on where it has stopped.

Three JVMs, so only with BARNABAS_HAND_OVER=1: `make mixed`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support import reference
from tests.support.chaos.foreign import ForeignCluster
from tests.support.replication.watching import Acknowledged, describe, read_all, wait_in_sync
from tests.support.waiting import wait_until

NODES = [1, 2, 3]
PARTITIONS = 6
CONFIG = {"min.insync.replicas": 2, "offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}
COMMITTED = {"isolation.level": "read_committed"}

pytestmark = pytest.mark.skipif(
    not os.environ.get("BARNABAS_HAND_OVER"), reason="a minute: `make mixed`, or BARNABAS_HAND_OVER=1"
)


class Story:
    """One cluster after the other on the same directories; what was acknowledged is there in each of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cluster_id = ""
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self._committed = 0

    def go_on(self, kafkas: list[int]) -> None:
        cluster = ForeignCluster(kafkas, self._directory, brokers=len(NODES), config=CONFIG)
        cluster.cluster_id = self._cluster_id or cluster.cluster_id
        with cluster:
            if not self._cluster_id:
                self._cluster_id = cluster.cluster_id
                for topic in ("orders", "moves"):
                    cluster.create_topic(topic, PARTITIONS, 3)
            self._require_everything(cluster)
            self._write(cluster)
            for topic in ("orders", "moves"):
                wait_in_sync(cluster, topic, NODES)
            cluster.stop(*NODES)

    def _require_everything(self, cluster: ForeignCluster) -> None:
        wait_until(lambda: all(each.leader > 0 for each in describe(cluster, "orders").values()), "all is led")
        assert read_all(cluster, "orders", PARTITIONS) == self._acknowledged
        consumer = self._consumer(cluster)
        (position,) = consumer.committed([TopicPartition("orders", 0)], 60)
        assert position.offset == (self._committed or -1001)
        consumer.close()
        moves = read_all(cluster, "moves", PARTITIONS, **COMMITTED)
        assert sorted(moves.values()) == sorted(b"%d" % number for number in range(self._committed))

    def _write(self, cluster: ForeignCluster) -> None:
        """Records, then a transaction with one more record and one more offset; one that is aborted."""
        with Acknowledged(cluster, "orders", PARTITIONS) as producer:
            producer.goes_on()
        assert not producer.failed
        self._acknowledged |= producer.acknowledged
        consumer = self._consumer(cluster)
        mover = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "mover"})
        mover.init_transactions(60)
        for ends in (True, False):
            mover.begin_transaction()
            mover.produce("moves", b"%d" % self._committed if ends else b"aborted", partition=0)
            if ends:
                offsets = [TopicPartition("orders", 0, self._committed + 1)]
                mover.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
                mover.commit_transaction(60)
            else:
                mover.flush(60)
                mover.abort_transaction(60)
        self._committed += 1
        consumer.close()

    def _consumer(self, cluster: ForeignCluster) -> Consumer:
        return Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "movers", **COMMITTED})


@pytest.mark.timeout(600)
def test_three_directories_go_to_apache_kafka_and_back(tmp_path: Path) -> None:
    if reason := reference.available():
        pytest.skip(reason)
    story = Story(tmp_path)
    for kafkas in ([], NODES, [], [2]):
        story.go_on(kafkas)
