"""A cluster of three of our nodes becomes one of three Apache Kafka nodes and ours again, while clients go on.

The clients are those of the chaos runs (confluent-kafka): plain, idempotent and transactional writers, a copier that
reads, processes and writes in transactions, and a group of readers. They are told of nothing, see no error, and in the
end the judge finds every record once and in order. Minutes, so only with BARNABAS_MIGRATION=1: `make migration`.

One idempotent writer has several requests in flight. When a partition moves librdkafka 2.16 may write its records
twice, on Apache Kafka alone as well: the judge knows these by their producer epochs (`written_again`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from barnabas.testing import Cluster
from tests.support import reference
from tests.support.chaos.history import Outcome
from tests.support.chaos.run import PLAIN, Run
from tests.support.replication.migration import Migration

OURS, KAFKAS = [1, 2, 3], [4, 5, 6]
CONFIG = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}

pytestmark = pytest.mark.skipif(
    not os.environ.get("BARNABAS_MIGRATION"), reason="minutes: `make migration`, or BARNABAS_MIGRATION=1"
)


class MigrationRun(Run):
    """There and back instead of faults."""

    def shake(self, cluster: Cluster) -> None:
        migration = cast("Migration", cluster)
        self._move_over(migration, OURS, KAFKAS)
        self._move_over(migration, KAFKAS, OURS)

    def _move_over(self, cluster: Migration, old: Sequence[int], new: Sequence[int]) -> None:
        self._step(f"{new} join", lambda: cluster.join(new))
        for node_id in new:
            self._step(f"controller {node_id} votes", lambda node_id=node_id: cluster.add_voter(node_id))
        self._step(f"partitions move to {new}", lambda: cluster.move_all(new))
        for node_id in old:
            self._step(f"controller {node_id} votes no more", lambda node_id=node_id: cluster.remove_voter(node_id))
        self._step(f"{old} are retired", lambda: cluster.retire(old))

    def _step(self, what: str, act: Callable[[], None]) -> None:
        began = time.monotonic()
        act()
        over = time.monotonic()
        self.wait_for(lambda: self.is_served_since(over), f"no service when {what}")
        line = f"{what}: {over - began:.1f} s"
        self.report.faults.append(line)
        print(line, flush=True)


@pytest.mark.timeout(1200)
def test_a_cluster_moves_to_apache_kafka_and_back_under_load(tmp_path: Path) -> None:
    if reason := reference.available():
        pytest.skip(reason)
    cluster = Migration(tmp_path, OURS, KAFKAS, CONFIG)
    run = MigrationRun(seed=16, seconds=0)
    try:
        cluster.begin()
        report = run(cast("Cluster", cluster))
    finally:
        for node_id, node in cluster.nodes.items():
            (tmp_path / f"{node_id}.log").write_text(node.log())
        cluster.close()
    print(report.text())
    assert not report.anomalies, report.text()
    refused = [send for send in run.history.sends if send.transaction is None and send.acknowledged_at is None]
    assert not [send for send in refused if send.partition[0] != PLAIN], "an idempotent producer was told of an error"
    outcomes = [each.outcome for each in run.history.transactions.values()]
    assert outcomes.count(Outcome.UNKNOWN) == 0, "a transaction ended with an error"
    assert outcomes.count(Outcome.COMMITTED) > 10, report.text()
    assert report.figures["read by the group"], report.text()
