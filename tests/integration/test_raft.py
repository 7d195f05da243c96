"""A quorum of ours over sockets and files: it grows from one voter to three, loses its leader, and shrinks again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.client.peer import Peer
from barnabas.core.raft import Endpoints, RaftConfig, ReplicaKey, Voter, VoterSet
from barnabas.node.raft.snapshots import FIRST_SNAPSHOT, small_snapshot
from barnabas.wire import batch as wire
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.records.raft import KRaftVersionRecord
from barnabas.wire.schema import Request
from barnabas.wire.uuids import Uuid
from tests.support.raft.socket_voter import RealFiles, SocketVoter
from tests.support.reference import free_port

CLUSTER_ID = "raft-in-a-test"
LIMIT_S = 40.0


def directory_id(node_id: int) -> Uuid:
    return Uuid(b"test-voter" + node_id.to_bytes(6, "big"))


class Quorum:
    """Node 1 is formatted as the only voter; the others know where it is."""

    def __init__(self, root: Path) -> None:
        self.ports = {node_id: free_port() for node_id in (1, 2, 3)}
        self.voters = {node_id: self._voter(node_id, root / str(node_id)) for node_id in self.ports}
        self.written = 0

    def _voter(self, node_id: int, directory: Path) -> SocketVoter:
        directory.mkdir()
        config = RaftConfig(
            node_id=node_id,
            directory_id=directory_id(node_id),
            cluster_id=CLUSTER_ID,
            endpoints=self.endpoints(node_id),
            bootstrap_servers=[("127.0.0.1", port) for port in self.ports.values()],
            election_timeout_ms=300,
            fetch_timeout_ms=600,
        )
        if node_id == 1:
            voters = VoterSet([Voter(ReplicaKey(1, directory_id(1)), self.endpoints(1), (0, 1))])
            control = [KRaftVersionRecord(k_raft_version=1), voters.to_record()]
            data = small_snapshot(control, [], level=30, last_contained_ms=0, now_ms=0)
            (directory / FIRST_SNAPSHOT.file_name).write_bytes(data)
        return SocketVoter(config, self.ports[node_id], RealFiles(directory))

    def endpoints(self, node_id: int) -> Endpoints:
        return Endpoints.of([("CONTROLLER", "127.0.0.1", self.ports[node_id])])

    def leader(self) -> SocketVoter | None:
        leaders = [voter for voter in self.voters.values() if voter.is_running and voter.is_leader]
        return max(leaders, key=lambda voter: voter.leader.epoch, default=None)

    def epoch(self) -> int:
        leader = self.leader()
        return leader.leader.epoch if leader is not None else -1

    async def reach(self, condition: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < limit, f"{what} has not happened in {LIMIT_S} s"
            for voter in self.voters.values():
                assert voter.driver is None or voter.driver.failure is None, voter.driver.failure
            await asyncio.sleep(0.01)

    async def write(self, count: int = 20) -> None:
        """Records that all who run have committed."""
        done = 0
        limit = time.monotonic() + LIMIT_S
        while done < count:
            assert time.monotonic() < limit, "nothing can be written"
            leader = self.leader()
            if leader is not None and leader.driver is not None:
                try:
                    offset = leader.driver.append(leader.leader.epoch, [f"record {self.written}".encode()])
                except KafkaError:
                    offset = -1
                if offset >= 0:
                    self.written += 1
                    done += 1
                    goal = offset + 1
            await asyncio.sleep(0.005)
        running = [voter for voter in self.voters.values() if voter.is_running]
        await self.reach(lambda: all(voter.committed >= goal for voter in running), f"a commit of {goal}")

    async def ask(self, request: Request) -> int:
        """The error code of the leader's answer; asked again while it is the time that is lacking."""
        limit = time.monotonic() + LIMIT_S
        while True:
            await self.reach(lambda: self.leader() is not None, "an election")
            leader = self.leader()
            assert leader is not None
            async with Peer(("127.0.0.1", leader.port)) as peer:
                answer = await peer.send(request, timeout_ms=10_000)
            if answer.error_code not in (6, 7) or time.monotonic() > limit:
                return int(answer.error_code)
            await asyncio.sleep(0.05)

    async def add(self, node_id: int) -> int:
        name, host, port = self.endpoints(node_id)[0]
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            voter_id=node_id,
            voter_directory_id=directory_id(node_id),
            listeners=[Listener(name=name, host=host, port=port)],
        )
        return await self.ask(request)

    async def remove(self, node_id: int) -> int:
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=directory_id(node_id)
        )
        return await self.ask(request)


def test_a_quorum_grows_loses_its_leader_and_shrinks(tmp_path: Path) -> None:
    asyncio.run(_tell(Quorum(tmp_path)))


async def _tell(quorum: Quorum) -> None:
    voters = quorum.voters
    try:
        for voter in voters.values():
            await voter.start()
        await quorum.write()
        for node_id in (2, 3):
            assert await quorum.add(node_id) == 0
            await quorum.write()
        assert await quorum.add(3) == 126  # DUPLICATE_VOTER

        killed = quorum.leader()
        assert killed is not None
        epoch = killed.leader.epoch
        await killed.kill()
        await quorum.reach(
            lambda: (leader := quorum.leader()) is not None and leader.leader.epoch > epoch, "a new leader"
        )
        await quorum.write()
        await killed.start()
        await quorum.write()

        for node_id in (1, 2):  # One of them leads perhaps, and goes when its removal is committed.
            assert await quorum.remove(node_id) in (0, 127)
            await quorum.reach(
                lambda: (leader := quorum.leader()) is not None and leader.config.node_id in leader.voter_ids,
                "a leader that is a voter",
            )
            await quorum.write()
        leader = quorum.leader()
        assert leader is not None
        assert leader.voter_ids == [3]
        _compare(quorum)
    finally:
        for voter in voters.values():
            if voter.is_running:
                await voter.kill()


def test_a_voter_without_pre_votes_is_asked_for_its_vote(tmp_path: Path) -> None:
    """As an older Kafka: Vote 1 and Fetch 14."""
    asyncio.run(_tell_of_an_old_voter())


async def _tell_of_an_old_voter() -> None:
    ports = {1: free_port(), 2: free_port()}
    static = VoterSet.static("CONTROLLER", [(node_id, "127.0.0.1", port) for node_id, port in ports.items()])
    voters = {}
    for node_id, port in ports.items():
        config = RaftConfig(
            node_id=node_id,
            directory_id=directory_id(node_id),
            cluster_id=CLUSTER_ID,
            endpoints=Endpoints.of([("CONTROLLER", "127.0.0.1", port)]),
            static_voters=static,
            election_timeout_ms=300,
        )
        voters[node_id] = SocketVoter(config, port)
        voters[node_id].newest = {1: 14, 52: 1}
        await voters[node_id].start()
    try:
        limit = time.monotonic() + LIMIT_S
        while not all(voter.committed > 0 for voter in voters.values()):
            assert time.monotonic() < limit, "nothing is committed"
            await asyncio.sleep(0.01)
    finally:
        for voter in voters.values():
            await voter.kill()


def _compare(quorum: Quorum) -> None:
    """All logs hold every record once and in order, and are the same up to what all have committed."""
    committed = min(voter.committed for voter in quorum.voters.values())
    contents = []
    for voter in quorum.voters.values():
        assert isinstance(voter.files, RealFiles)
        assert voter.files.log is not None
        data = bytes(voter.files.log.read(0, 1 << 30))
        headers = [(at, header) for at, header in wire.iterate_batches(data) if header.last_offset < committed]
        contents.append(b"".join(data[at : at + header.size] for at, header in headers))
    assert contents[0] == contents[1] == contents[2]
    written = [
        record.value
        for at, header in wire.iterate_batches(contents[0])
        if not header.is_control
        for record in wire.decode_records(contents[0], at)
    ]
    assert len(written) == len(set(written))
    assert len(written) >= 100
