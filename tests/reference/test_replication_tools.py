"""Kafka's tools of its system tests on a cluster of ours whose leaders are killed meanwhile: VerifiableProducer,
VerifiableConsumer, TransactionalMessageCopier and ReplicaVerificationTool.

Four JVMs and a cluster, so only with BARNABAS_REPLICATION_TOOLS=1: `make mixed`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Cluster
from tests.support import reference, reference_libs
from tests.support.replication.watching import describe, read_all, wait_in_sync
from tests.support.waiting import wait_until

RECORDS = 3_000
TOOLS = "org.apache.kafka.tools"
CONFIG = {"min.insync.replicas": 2, "broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
LIMIT_S = 120.0

pytestmark = pytest.mark.skipif(
    not os.environ.get("BARNABAS_REPLICATION_TOOLS"), reason="a minute: `make mixed`, or BARNABAS_REPLICATION_TOOLS=1"
)


class Running:
    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self.process = process
        self._said = said

    def lines(self) -> list[str]:
        return self._said.read_text(errors="replace").splitlines()

    def events(self) -> list[dict[str, Any]]:
        """What it has told of itself, a line of JSON each."""
        whole = [line for line in self.lines() if line.startswith("{") and line.endswith("}")]
        return [json.loads(line) for line in whole]

    def wait(self) -> None:
        assert self.process.wait(LIMIT_S) == 0, "\n".join(self.lines()[-20:])


@contextmanager
def running(directory: Path, tool: str, *arguments: str) -> Iterator[Running]:
    said = directory / f"{tool}.log"
    command = [reference_libs.java(), "-Xmx128m", *reference_libs.classpath_options(), f"{TOOLS}.{tool}", *arguments]
    with said.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield Running(process, said)
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(600)
def test_what_was_acknowledged_is_copied_once_and_read_and_replicas_are_equal(tmp_path: Path) -> None:
    if reason := reference.available():
        pytest.skip(reason)
    with Cluster(brokers=3, config=CONFIG) as cluster:
        for topic in ("sent", "copied"):
            cluster.create_topic(topic, 1, 3)
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        sends = ("--topic", "sent", "--max-messages", str(RECORDS), "--acks", "-1", "--throughput", "300")
        with running(tmp_path, "VerifiableProducer", *servers, *sends) as producer:
            wait_until(lambda: len(producer.events()) > RECORDS / 5, "records are sent", LIMIT_S)
            kill_leader(cluster, "sent")
            producer.wait()
            told = [each for each in producer.events() if each["name"] == "producer_send_success"]
        # It does not try again what failed when the leader was killed.
        assert len(told) > RECORDS / 2
        sent = read_all(cluster, "sent", 1)
        assert all(sent.get((0, each["offset"])) == each["value"].encode() for each in told), "acknowledged and lost"
        copies = ("--broker-list", cluster.bootstrap_servers, "--input-topic", "sent", "--input-partition", "0")
        copies += ("--output-topic", "copied", "--max-messages", str(RECORDS), "--consumer-group", "copiers")
        copies += ("--transaction-size", "100", "--transactional-id", "copier", "--enable-random-aborts")
        with running(tmp_path, "TransactionalMessageCopier", *copies) as copier:
            wait_until(lambda: any(each.get("consumed") for each in copier.events()), "records are copied", LIMIT_S)
            kill_leader(cluster, "copied")
            copier.wait()
        copied = read_all(cluster, "copied", 1, **COMMITTED)
        assert sorted(copied.values()) == sorted(sent.values()), "not every record was copied once"
        reads = ("--topic", "sent", "--group-id", "readers", "--max-messages", str(len(sent)))
        with running(tmp_path, "VerifiableConsumer", *servers, *reads) as consumer:
            consumer.wait()
            assert sum(each["count"] for each in consumer.events() if each["name"] == "records_consumed") == len(sent)
        for topic in ("sent", "copied"):
            wait_in_sync(cluster, topic, cluster.broker_ids)
        verifies = ("--broker-list", cluster.bootstrap_servers, "--topics-include", "sent|copied")
        with running(tmp_path, "ReplicaVerificationTool", *verifies, "--report-interval-ms", "500") as verifier:
            wait_until(lambda: has_verified(verifier.lines()), "the replicas are compared", LIMIT_S)
            assert not [line for line in verifier.lines() if "doesn't match" in line or "unmatched" in line]


COMMITTED = {"isolation.level": "read_committed"}


def has_verified(lines: list[str]) -> bool:
    """More than once: the first report comes before the ends are reached."""
    return sum("max lag is 0 for partition" in line for line in lines) > 2


def kill_leader(cluster: Cluster, topic: str) -> None:
    leader = describe(cluster, topic)[0].leader
    cluster.kill(leader)
    cluster.start(leader)
