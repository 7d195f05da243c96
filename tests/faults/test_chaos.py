"""Clients of all kinds while nodes of a cluster are killed, cut off and hang: the judge finds nothing wrong.

A short run with a fault or two of three kinds; `make chaos MINUTES=10 SEED=17` is the long one, with all kinds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing import Cluster
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.support.chaos import clients
from tests.support.chaos.clients import Copier, Writer
from tests.support.chaos.faults import GROUP, TRANSACTION
from tests.support.chaos.history import History, Outcome
from tests.support.chaos.run import CONFIG, Run
from tests.support.waiting import wait_until

LIMIT_S = 120.0


@pytest.mark.slow
@pytest.mark.timeout(900)  # a busy machine is slow to get back into service, and the judge has its own limits for that
def test_nothing_is_lost_repeated_or_torn_under_faults(tmp_path: Path) -> None:
    run = Run(seed=7, seconds=8, kinds=["kill", "isolate", "pause"])
    with Cluster(brokers=3, config=CONFIG, links=True, data_dir=tmp_path) as cluster:
        report = run(cluster)
    assert not report.anomalies, report.text()
    assert report.faults
    assert report.figures["transactions committed"], report.text()
    assert report.figures["read by the group"], report.text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_copier_goes_on_when_the_coordinator_of_its_group_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's own call may not return until the node is back: see `clients.STUCK_S`."""
    monkeypatch.setattr(clients, "STUCK_S", 2.0)
    config = {**CONFIG, "transaction.state.log.num.partitions": 4}  # so that a name may have two coordinators
    with Cluster(brokers=3, config=config) as cluster:
        for topic in ("source", "target"):
            cluster.create_topic(topic, 1, 3)
        name = next(each for each in map("copier-{}".format, range(100)) if _has_two_coordinators(cluster, each))
        history = History(promises={})
        writer = Writer("writer", cluster.bootstrap_servers, history, 1, "source", 1, **Run.once)
        copier = Copier(name, cluster.bootstrap_servers, history, 1, "source", "target")
        for client in (writer, copier):
            client.start()
        try:
            wait_until(lambda: _committed(history) > 3, limit_s=LIMIT_S)
            cluster.kill(_coordinator(cluster, GROUP, name))
            before = _committed(history)
            wait_until(lambda: _committed(history) > before + 3, limit_s=LIMIT_S)
        finally:
            for client in (writer, copier):
                client.enough.set()


def _has_two_coordinators(cluster: Cluster, name: str) -> bool:
    return _coordinator(cluster, GROUP, name) != _coordinator(cluster, TRANSACTION, name)


def _coordinator(cluster: Cluster, kind: int, key: str) -> int:
    found: list[int] = []

    def find() -> bool:
        with cluster.connect() as connection:
            (answer,) = connection.request(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators
        found.append(answer.node_id)
        return not answer.error_code

    wait_until(find, limit_s=LIMIT_S)
    return found[-1]


def _committed(history: History) -> int:
    return sum(each.outcome is Outcome.COMMITTED for each in list(history.transactions.values()))
