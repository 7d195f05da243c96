"""Our replica in the quorum of an Apache Kafka cluster, on real files.

It follows, begins with Kafka's snapshot, becomes a voter by Kafka's own tool, is needed for every commit, comes back
after a power cut, and is removed again.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.core.raft import Endpoints, RaftConfig
from barnabas.wire import batch as wire
from barnabas.wire.uuids import Uuid
from tests.support import reference
from tests.support.raft.socket_voter import RealFiles, SocketVoter

OURS = 2
DIRECTORY_ID = Uuid(b"barnabas-member!")
LIMIT_S = 60.0
# A snapshot after every few records.
PROPERTIES = {"metadata.log.max.record.bytes.between.snapshots": "2000"}


@pytest.fixture
def kafka() -> Iterator[reference.ApacheKafka]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties=PROPERTIES) as started:
        yield started


class Member:
    def __init__(self, kafka: reference.ApacheKafka, root: Path) -> None:
        self.kafka = kafka
        self.root = root
        port = reference.free_port()
        config = RaftConfig(
            node_id=OURS,
            directory_id=DIRECTORY_ID,
            cluster_id=kafka.cluster_id,
            endpoints=Endpoints.of([("CONTROLLER", "127.0.0.1", port)]),
            bootstrap_servers=[("127.0.0.1", kafka.controller_port)],
            # It follows and votes, but does not lead: nobody is there to control a cluster.
            election_timeout_ms=3_600_000,
            fetch_timeout_ms=3_600_000,
        )
        self.files = RealFiles(root / "__cluster_metadata-0")
        self.voter = SocketVoter(config, port, self.files)
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self.properties = root / "controller.properties"
        self._describe(port)

    def _describe(self, port: int) -> None:
        """What Kafka's tool wants to know about the controller that it adds."""
        meta = {"version": 1, "cluster.id": self.kafka.cluster_id, "node.id": OURS, "directory.id": DIRECTORY_ID}
        (self.root / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in meta.items()))
        properties = {
            "process.roles": "controller",
            "node.id": OURS,
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.kafka.controller_port}",
            "log.dirs": self.root,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    async def tool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        address = f"127.0.0.1:{self.kafka.controller_port}"
        command = ["--bootstrap-controller", address, "--command-config", str(self.properties), *arguments]
        done = await asyncio.to_thread(reference.run_tool, "kafka-metadata-quorum", *command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    async def reach(self, condition: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + LIMIT_S
        while not condition():
            assert self.kafka.running, self.kafka.log_file.read_text()[-4000:]
            driver = self.voter.driver  # None before its start
            assert driver is None or driver.failure is None, driver and driver.failure
            assert time.monotonic() < limit, f"{what} has not happened in {LIMIT_S} s"
            await asyncio.sleep(0.02)

    async def create(self, topic: str) -> None:
        futures = self.admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=30)
        await asyncio.to_thread(futures[topic].result, 40)

    def is_voter(self) -> bool:
        return self.voter.driver is not None and OURS in self.voter.driver.raft.voters.ids


@pytest.mark.timeout(240)
def test_a_replica_of_ours_joins_and_leaves_apache_kafkas_quorum(kafka: reference.ApacheKafka, tmp_path: Path) -> None:
    asyncio.run(_tell(Member(kafka, tmp_path)))


async def _tell(member: Member) -> None:
    voter = member.voter
    for index in range(5):
        await member.create(f"before-{index}")
    await member.reach(lambda: bool(snapshots(member.kafka)), "a snapshot of Kafka's")
    await voter.start()
    try:
        await member.reach(lambda: voter.committed > 0, "the first commit that we hear of")
        assert member.files.log is not None
        assert member.files.log.start_offset > 0, "it did not begin with a snapshot"

        await member.tool("add-controller")
        await member.reach(member.is_voter, "our being a voter")
        before = voter.committed
        await member.create("needs-us")
        await member.reach(lambda: voter.committed > before, "our hearing of the commit")

        await voter.kill()
        await asyncio.sleep(4)  # Kafka's leader gives up: it has no majority without us.
        await voter.start()
        await member.create("needs-us-again")
        assert_same_bytes(member)

        await member.tool(
            "remove-controller", "--controller-id", str(OURS), "--controller-directory-id", str(DIRECTORY_ID)
        )
        await member.reach(lambda: not member.is_voter(), "our removal")
        await member.create("without-us")
        assert member.kafka.running
    finally:
        await voter.stop()


def snapshots(kafka: reference.ApacheKafka) -> list[Path]:
    found = (kafka.data_dir / "__cluster_metadata-0").glob("*.checkpoint")
    return [path for path in found if not path.name.startswith("0" * 20)]


def assert_same_bytes(member: Member) -> None:
    log = member.files.log
    assert log is not None
    ours = bytes(log.read(log.start_offset, 1 << 30))
    segments = sorted((member.kafka.data_dir / "__cluster_metadata-0").glob("*.log"))
    theirs = b"".join(segment.read_bytes() for segment in segments)
    expected = {header.base_offset: theirs[at : at + header.size] for at, header in wire.iterate_batches(theirs)}
    found = {header.base_offset: ours[at : at + header.size] for at, header in wire.iterate_batches(ours)}
    assert len(found) > 3
    assert all(expected[offset] == data for offset, data in found.items())
