"""A voter over real sockets, for tests: `core/raft` under the node's driver, a server that answers the quorum's APIs.

Its log is in memory or in real files. `kill` ends it as a power cut would, and `start` begins a new life with what the
disk kept.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from barnabas.client.peer import PeerSettings
from barnabas.core.raft import LeaderAndEpoch, QuorumState, Raft, RaftConfig, RaftLog, SnapshotId
from barnabas.node.raft.driver import QuorumDisk, RaftDriver
from barnabas.node.raft.replica_log import ReplicaLog
from barnabas.wire.apis import APIS, message_classes, request_header_version, response_header_version
from barnabas.wire.errors import KafkaError
from barnabas.wire.headers import RequestHeader, ResponseHeader
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from barnabas.wire.schema import Response
from tests.support.raft.cluster import LISTENER, Disk

QUORUM_APIS = (1, 18, 52, 53, 54, 55, 59, 80, 81, 82)


class MemoryFiles:
    """A log in memory; when it is closed as by a power cut, what was not flushed is lost."""

    def __init__(self) -> None:
        self.disk = Disk()
        self._image = self.disk.log.image()

    def open(self, voter: SocketVoter) -> tuple[RaftLog, QuorumState | None, QuorumDisk]:
        return self.disk.log, self.disk.quorum_state, self

    def close(self, *, clean: bool) -> None:
        self.disk.log.stop(None if clean else Random(0))

    def write_quorum_state(self, state: QuorumState) -> None:
        self.disk.quorum_state = state

    def prepare_flush(self) -> Callable[[], object]:
        self._image = self.disk.log.image()
        return lambda: time.sleep(0.001)

    def flushed(self) -> None:
        self.disk.log.flush(self._image)

    def prepare_freeze(self, snapshot_id: SnapshotId) -> Callable[[], object]:
        return self.disk.log.prepare_freeze(snapshot_id)


class RealFiles:
    """The files of a node, in this directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log: ReplicaLog | None = None

    def open(self, voter: SocketVoter) -> tuple[RaftLog, QuorumState | None, QuorumDisk]:
        config = voter.config
        self.log = ReplicaLog.open(self.directory, config.topic, config.topic_id, voter.flusher, voter.clock)
        return self.log, self.log.read_quorum_state(), self.log

    def close(self, *, clean: bool) -> None:
        assert self.log is not None
        self.log.close(clean=clean)


class SocketVoter:
    def __init__(self, config: RaftConfig, port: int, files: MemoryFiles | RealFiles | None = None) -> None:
        self.config = config
        self.port = port
        self.files = files or MemoryFiles()
        self.committed = 0
        self.leader = LeaderAndEpoch(None, 0)
        self.driver: RaftDriver | None = None
        self.flusher = ThreadPoolExecutor(1)
        # The newest versions that it says it knows, where they are not all.
        self.newest: dict[int, int] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._offset_ms = time.time() * 1000 - time.monotonic() * 1000

    def clock(self) -> int:
        return int(self._offset_ms + time.monotonic() * 1000)

    async def start(self) -> None:
        log, quorum_state, disk = self.files.open(self)
        raft = Raft(self.config, log, quorum_state, Random(self.config.node_id), self.clock())
        peers = PeerSettings(client_id=f"raft-client-{self.config.node_id}", request_timeout_ms=2000)
        self.driver = RaftDriver(raft, disk, self.flusher, self.clock, peers)
        self.driver.on_commit = self._commit
        self.driver.on_leader_change = self._lead
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.driver.start()

    async def kill(self) -> None:
        """The power goes."""
        assert self.driver is not None
        await self.driver.stop()
        await self._close()
        self.files.close(clean=False)

    async def stop(self) -> None:
        assert self.driver is not None
        await self.driver.shut_down(5000)
        await self._close()
        self.files.close(clean=True)

    @property
    def is_running(self) -> bool:
        return self._server is not None

    @property
    def voter_ids(self) -> list[int]:
        assert self.driver is not None
        return self.driver.raft.voters.ids

    @property
    def is_leader(self) -> bool:
        return self.leader.leader_id == self.config.node_id

    def _commit(self, high_watermark: int) -> None:
        self.committed = high_watermark

    def _lead(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._connections):
            writer.close()
        if self._server is not None:
            await self._server.wait_closed()
        self._server, self.leader = None, LeaderAndEpoch(None, 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                answer = await self._answer(frame)
                writer.write(struct.pack(">i", len(answer)) + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, KafkaError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, frame: bytes) -> bytes:
        key, version = struct.unpack_from(">hh", frame)
        request_type, _ = message_classes(key)
        header, position = RequestHeader.decode_from(frame, 0, request_header_version(request_type, version))
        request = request_type.decode(memoryview(frame)[position:], version)
        response: Response
        if isinstance(request, ApiVersionsRequest):
            response = _api_versions(self.newest)
        else:
            assert self.driver is not None
            response = await self.driver.ask(request, version, LISTENER)
        header_version = response_header_version(request_type, version)
        head = ResponseHeader(correlation_id=header.correlation_id).encode(header_version)
        return bytes(head + response.encode(version))


def _api_versions(newest: dict[int, int]) -> ApiVersionsResponse:
    keys = []
    for key in QUORUM_APIS:
        low, high = APIS[key].controller or (0, 0)
        keys.append(ApiVersion(api_key=key, min_version=low, max_version=newest.get(key, high)))
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return ApiVersionsResponse(api_keys=keys, supported_features=[feature])
