"""`barnabas cluster drain` and `barnabas cluster roll` on a cluster of processes, while a producer writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.testing import Cluster
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.replication.watching import Acknowledged, describe, read_all, wait_in_sync

PARTITIONS = 4
LIMIT_S = 240


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"min.insync.replicas": 1, "broker.heartbeat.interval.ms": 500, "offsets.topic.num.partitions": 2}
    with Cluster(brokers=3, config=config) as made:
        made.create_topic("wide", 1, 3)
        made.create_topic("narrow", PARTITIONS, 2)
        wait_in_sync(made, "wide", made.broker_ids)
        yield made


def command(cluster: Cluster, *words: str) -> list[str]:
    return [sys.executable, "-m", "barnabas", "cluster", "--bootstrap-server", cluster.bootstrap_servers, *words]


def run(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(cluster, *words), capture_output=True, text=True, timeout=LIMIT_S)


def test_a_broker_whose_replicas_have_nowhere_to_go_is_not_drained(cluster: Cluster) -> None:
    before = describe(cluster, "narrow")
    refused = run(cluster, "drain", "2")
    assert refused.returncode == 1
    said = refused.stdout + refused.stderr
    assert "Without broker 2 there are 2 brokers, too few for wide-0 with 3 replicas." in said
    assert "Traceback" not in said
    assert describe(cluster, "narrow") == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["drain"], "id is missing"),
        (["drain", "x"], "drain takes the id of one broker, a number"),
    ],
)
def test_drain_takes_one_number(cluster: Cluster, words: list[str], sentence: str) -> None:
    refused = run(cluster, *words)
    assert refused.returncode == 1
    assert sentence in refused.stdout + refused.stderr


def test_brokers_are_restarted_one_after_the_other_and_one_is_drained_while_a_producer_writes(
    cluster: Cluster,
) -> None:
    leader = cluster.controller_id()
    with Acknowledged(cluster, "narrow", PARTITIONS) as producer:
        producer.goes_on()
        restarted = roll(cluster)
        producer.goes_on()
        delete(cluster, "wide")
        drained = run(cluster, "drain", "2")
        assert drained.returncode == 0, drained.stdout + drained.stderr
        assert run(cluster, "drain", "2").stdout == "Broker 2 holds no replicas.\n"
        producer.goes_on()
    assert restarted[-1] == leader, "the leader of the quorum is the last"
    assert sorted(restarted) == cluster.broker_ids
    assert "Broker 2 holds no replicas: it can be stopped and unregistered." in drained.stdout
    assert all(2 not in each.replicas and len(each.replicas) == 2 for each in describe(cluster, "narrow").values())
    assert not producer.failed
    found = read_all(cluster, "narrow", PARTITIONS)
    values = sorted(found.values())
    assert values == sorted(set(values)), "each is there once"
    # A value whose acknowledgement was lost with its connection is acknowledged again without its offset.
    assert set(values) == {f"{number}".encode() for number in range(producer.sent)}, "nothing else is there"
    assert all(found[key] == value for key, value in producer.acknowledged.items() if key[1] is not None)


def roll(cluster: Cluster) -> list[int]:
    """Does what the tool says; the brokers in their order."""
    restarted = []
    with subprocess.Popen(command(cluster, "roll"), stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        for line in tool.stdout:
            words = line.split()
            if words[0] == "Restart":
                restarted.append(int(words[2]))
                cluster.restart(restarted[-1])
        assert tool.wait(LIMIT_S) == 0
    return restarted


def delete(cluster: Cluster, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=60_000)
    with cluster.connect() as connection:
        (deleted,) = connection.request(request).responses
    assert deleted.error_code == 0, deleted
