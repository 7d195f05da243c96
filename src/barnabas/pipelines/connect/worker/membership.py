"""A worker's life in the workers' group: it joins, hears who is there and who leads, and sends heartbeats.

The group's leader tells everyone the list of workers; by it each knows which connectors are its own, without asking.
The leader alone writes configurations; the others forward to it. When a worker dies the coordinator removes it, the
group agrees anew, and its connectors are others'. A source's transactional id fences who was only thought dead.
"""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, Refused, known_code
from barnabas.client.membership import leave_group
from barnabas.pipelines.connect.worker.settings import WorkerSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

log = logging.getLogger(__name__)
PROTOCOL_TYPE, PROTOCOL = "connect", "barnabas"
AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
RETRY_S = 0.5
GRACE_MS = 5_000


@dataclass(frozen=True, slots=True)
class Assignment:
    """`workers` are the addresses of all, in one order for all."""

    own: str
    leader: str
    workers: tuple[str, ...]
    generation: int

    @property
    def leads(self) -> bool:
        return self.own == self.leader

    def owner(self, connector: str) -> str:
        return self.workers[zlib.crc32(connector.encode()) % len(self.workers)]

    def owns(self, connector: str) -> bool:
        return self.owner(connector) == self.own


class Membership(threading.Thread):
    """`on_assigned` is called in this thread; with None while the worker belongs to no group. `on_rebalance` is called
    before the worker joins again, and returns when no turn is under way: then nobody else's turn can run beside one."""

    def __init__(
        self,
        settings: WorkerSettings,
        on_assigned: Callable[[Assignment | None], None],
        on_rebalance: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name="connect-membership", daemon=True)
        self._settings, self._on_assigned, self._on_rebalance = settings, on_assigned, on_rebalance
        self._cluster = Cluster(settings.kafka)
        self._member_id = ""
        self._closing = threading.Event()

    def run(self) -> None:
        try:
            self._live()
        finally:
            self._cluster.close()

    def _live(self) -> None:
        while not self._closing.is_set():
            try:
                self._stay(self._join())
            except (ClientError, ValueError, OSError) as error:
                if self._closing.is_set():
                    break
                if isinstance(error, Refused) and error.code in AGAIN:
                    if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
                        self._on_rebalance()
                    else:
                        self._member_id = ""
                        self._on_assigned(None)
                    continue
                log.warning("group %s: %s; trying again in %s s", self._settings.group_id, error, RETRY_S)
                self._on_assigned(None)
                self._closing.wait(RETRY_S)

    def close(self) -> None:
        self._closing.set()
        self.join(self._settings.heartbeat_interval_ms / 1000 + 1)
        if self._member_id:
            try:
                with Cluster(self._settings.kafka) as cluster:
                    leave_group(cluster, self._settings.group_id, self._member_id)
            except ClientError as error:
                log.info("could not tell group %s that the worker leaves: %s", self._settings.group_id, error)

    def _join(self) -> int:
        settings = self._settings
        metadata = json.dumps({"url": settings.worker_id}).encode()
        wait_ms = settings.rebalance_timeout_ms + GRACE_MS
        while True:
            request = JoinGroupRequest(
                group_id=settings.group_id,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
            )
            joined = self._cluster.ask_coordinator("group", settings.group_id, request, timeout_ms=wait_ms)
            code = known_code(joined.error_code)
            self._member_id = joined.member_id or self._member_id
            if code is not ErrorCode.MEMBER_ID_REQUIRED:
                break
        if code:
            raise Refused(code, f"group {settings.group_id} cannot be joined")
        assignments = []
        if joined.leader == joined.member_id:
            urls = {each.member_id: json.loads(each.metadata)["url"] for each in joined.members}
            told = {"leader": settings.worker_id, "workers": sorted(set(urls.values()))}
            data = json.dumps(told).encode()
            assignments = [SyncGroupRequestAssignment(member_id=each, assignment=data) for each in urls]
        sync = SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        synced = self._cluster.ask_coordinator("group", settings.group_id, sync, timeout_ms=wait_ms)
        if synced.error_code:
            raise Refused(synced.error_code, f"group {settings.group_id} does not agree")
        given = json.loads(synced.assignment)
        found = Assignment(settings.worker_id, given["leader"], tuple(given["workers"]), joined.generation_id)
        self._on_assigned(found)
        return int(joined.generation_id)

    def _stay(self, generation: int) -> None:
        beat = HeartbeatRequest(group_id=self._settings.group_id, generation_id=generation, member_id=self._member_id)
        while not self._closing.wait(self._settings.heartbeat_interval_ms / 1000):
            answer = self._cluster.ask_coordinator(
                "group", self._settings.group_id, beat, within_ms=self._settings.session_timeout_ms
            )
            if answer.error_code:
                raise Refused(answer.error_code, f"group {self._settings.group_id}")
