"""`core/raft` in one quorum with Apache Kafka's replicas: `kafka.tools.TestRaftServer`, a bare voter with a workload.

A Kafka replica exits at the first byte that is wrong, so none of them may exit; and all logs must be the same at the
end, byte for byte. The leader is on either side, and leaders are killed on either side.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.core.raft import Endpoints, RaftConfig, VoterSet
from barnabas.node.raft.replica_log import ReplicaLog
from barnabas.wire import batch as wire
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import ZERO_UUID, Uuid
from tests.support import reference
from tests.support.raft.socket_voter import RealFiles, SocketVoter
from tests.support.reference_libs import classpath_options, java

TOPIC = "__raft_performance_test"
TOPIC_ID = Uuid(15 * b"\0" + b"\2")
OURS, THEIRS = 1, (2, 3)
LIMIT_S = 60.0


class TestRaftServer:
    """One of Kafka's voters."""

    __test__ = False

    def __init__(self, node_id: int, ports: dict[int, int], directory: Path) -> None:
        self.id = node_id
        self.directory = directory
        self._properties = directory / "raft.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir()
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in ports.items())
        properties = {
            "node.id": node_id,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{ports[node_id]}",
            "controller.quorum.voters": voters,
            # Ours is the first to stand for election when a leader is gone.
            "controller.quorum.fetch.timeout.ms": 6000,
            "log.dirs": directory / "data",
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def start(self) -> None:
        options = [*reference.TEST_JVM, "-Dreference.log.level=INFO", *classpath_options()]
        arguments = ["--config", str(self._properties), "--throughput", "200", "--record-size", "100"]
        directory_id = Uuid(b"kafka" + self.id.to_bytes(11, "big"))
        arguments += ["--replica-directory-id", str(directory_id)]
        with open(self.log_file, "ab") as log:
            command = [java(), *options, "kafka.tools.TestRaftServer", *arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)

    @property
    def log_file(self) -> Path:
        return self.directory / "log.txt"

    def assert_running(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            lines = self.log_file.read_text().splitlines()
            pytest.fail(f"Apache Kafka's voter {self.id} has exited:\n" + "\n".join(lines[-40:]))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def batches(self) -> bytes:
        segments = sorted((self.directory / "data" / f"{TOPIC}-0").glob("*.log"))
        return b"".join(segment.read_bytes() for segment in segments)


class Quorum:
    def __init__(self, root: Path) -> None:
        ports = {node_id: reference.free_port() for node_id in (OURS, *THEIRS)}
        self.theirs = {node_id: TestRaftServer(node_id, ports, root / str(node_id)) for node_id in THEIRS}
        config = RaftConfig(
            node_id=OURS,
            directory_id=Uuid(b"barnabas" + OURS.to_bytes(8, "big")),
            cluster_id=str(ZERO_UUID),
            endpoints=Endpoints.of([("CONTROLLER", "127.0.0.1", ports[OURS])]),
            static_voters=VoterSet.static("CONTROLLER", [(node, "127.0.0.1", port) for node, port in ports.items()]),
            topic=TOPIC,
            topic_id=TOPIC_ID,
            election_timeout_ms=500,
        )
        self._files = RealFiles(root / f"{TOPIC}-0")
        self.ours = SocketVoter(config, ports[OURS], self._files)

    @property
    def log(self) -> ReplicaLog:
        assert self._files.log is not None
        return self._files.log

    async def reach(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for the condition; writes whenever ours leads, as Kafka's do by themselves."""
        limit = time.monotonic() + LIMIT_S
        while not condition():
            for each in self.theirs.values():
                if each._process is not None:
                    each.assert_running()
            assert self.ours.driver is not None
            assert self.ours.driver.failure is None, self.ours.driver.failure
            assert time.monotonic() < limit, f"{what} has not happened in {LIMIT_S} s; {self.ours.leader}"
            self.write()
            await asyncio.sleep(0.02)

    def write(self) -> None:
        assert self.ours.driver is not None
        leader = self.ours.leader
        if self.ours.is_leader:
            try:
                self.ours.driver.append(leader.epoch, [b"ours", bytes(100)])
            except KafkaError:
                pass  # It has resigned meanwhile.

    async def progress(self, records: int = 100) -> None:
        goal = self.ours.committed + records
        await self.reach(lambda: self.ours.committed >= goal, f"a commit of {records} records")


@pytest.fixture
def quorum(tmp_path: Path) -> Quorum:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    return Quorum(tmp_path)


@pytest.mark.timeout(240)
def test_a_voter_of_ours_among_apache_kafkas(quorum: Quorum) -> None:
    asyncio.run(_tell(quorum))


async def _tell(quorum: Quorum) -> None:
    ours, theirs = quorum.ours, quorum.theirs
    for each in theirs.values():
        each.start()
    await ours.start()
    try:
        await quorum.reach(lambda: ours.leader.leader_id is not None, "the first election")
        await quorum.progress()
        await _let_kafka_lead(quorum)
        await quorum.progress()

        killed = theirs[ours.leader.leader_id or 0]
        killed.kill()
        await quorum.reach(lambda: ours.leader.leader_id not in (None, killed.id), "an election after a kill")
        await quorum.progress()
        killed.start()
        await _let_kafka_lead(quorum)
        await quorum.progress()

        epoch = ours.leader.epoch
        await ours.kill()
        await asyncio.sleep(0.5)
        await ours.start()
        await quorum.reach(lambda: ours.leader.epoch >= epoch and ours.leader.leader_id is not None, "a leader again")
        await quorum.progress()
        await _hand_over(quorum, killed)
        _compare(quorum)
    finally:
        for each in theirs.values():
            each.kill()
        await ours.stop()


async def _let_kafka_lead(quorum: Quorum) -> None:
    """Ours resigns as often as it is elected: on a busy machine it may be faster than those it prefers."""
    ours = quorum.ours

    def kafka_leads() -> bool:
        if ours.is_leader and ours.driver is not None:
            ours.driver.resign(ours.leader.epoch)
        return ours.leader.leader_id in THEIRS

    await quorum.reach(kafka_leads, "the election of a Kafka voter")


async def _hand_over(quorum: Quorum, restarted: TestRaftServer) -> None:
    """The restarted voter has caught up when a majority needs it: the other one of Kafka's is gone."""
    other = next(each for each in quorum.theirs.values() if each is not restarted)
    other.kill()
    await quorum.progress()
    restarted.assert_running()


def _compare(quorum: Quorum) -> None:
    """Each log begins as ours, up to what is committed in it."""
    committed = quorum.ours.committed
    assert committed > 400
    data = bytes(quorum.log.read(0, 1 << 30))
    headers = [(at, header) for at, header in wire.iterate_batches(data) if header.last_offset < committed]
    expected = {header.base_offset: data[at : at + header.size] for at, header in headers}
    assert len({header.leader_epoch for _, header in headers}) >= 2
    for each in quorum.theirs.values():
        data = each.batches()
        found = {header.base_offset: data[at : at + header.size] for at, header in wire.iterate_batches(data)}
        shared = [offset for offset in expected if offset in found]
        assert len(shared) > 20
        different = [offset for offset in shared if expected[offset] != found[offset]]
        # What a voter had and nobody committed may differ; it is truncated when it comes back, which it has not.
        assert not [offset for offset in different if offset < min(max(shared), committed)], different
