"""An instance's life in the registries' group: a thread that joins, hears who the primary is, and sends heartbeats.

The primary may write only while its membership is certain. The coordinator removes a member when no heartbeat reached
it for the session timeout, so from the moment a heartbeat was sent the lease runs for the session timeout less the time
that a write may take. Before an instance joins anew it stops being the primary and waits for writes that are under way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from barnabas.client.cluster import NOT_YET, Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError, Refused, known_code
from barnabas.services.registry.election import (
    DUPLICATE_URLS,
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    Identity,
    decode_assignment,
    decode_identity,
    elect,
)
from barnabas.services.registry.settings import RegistrySettings
from barnabas.services.registry.topic import DELIVERY_TIMEOUT_MS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.schema import Request

log = logging.getLogger(__name__)

REMOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
MARGIN_MS = 500
LEASE_LEAST_MS = 1_000
RETRY_S = 0.5
ANSWER_GRACE_MS = 5_000
JOIN_THREAD_S = 2.0
LEAVE_WITHIN_MS = 1_000


class Rejoin(Exception):
    """The group has to agree anew."""


class Elector(threading.Thread):
    """`on_assigned` is told the primary, or None; `on_revoked` returns when no write is under way any more."""

    def __init__(
        self,
        settings: RegistrySettings,
        identity: Identity,
        on_assigned: Callable[[Identity | None], None],
        on_revoked: Callable[[], None],
    ) -> None:
        super().__init__(name="registry-elector", daemon=True)
        self.lease_until = 0.0
        self._settings = settings
        self._identity = identity
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._cluster = Cluster(settings.kafka)
        self._connection: Connection | None = None
        self._member_id = ""
        self._generation = -1
        self._closing = threading.Event()
        self.lease_ms = max(settings.session_timeout_ms - DELIVERY_TIMEOUT_MS - MARGIN_MS, LEASE_LEAST_MS)

    def run(self) -> None:
        while not self._closing.is_set():
            try:
                self._join()
                self._stay()
            except Rejoin as reason:
                log.info("group %s: joining anew, %s", self._settings.group_id, reason)
            except (ClientError, ValueError, OSError) as error:
                if self._closing.is_set():
                    break
                log.warning("group %s: %s; trying again in %s s", self._settings.group_id, error, RETRY_S)
                self._forget_coordinator()
                self._closing.wait(RETRY_S)
            self.lease_until = 0.0
            self._on_revoked()
        self._leave()
        self._cluster.close()

    def close(self) -> None:
        self._closing.set()
        if self._connection is not None:
            self._connection.close()
        self.join(JOIN_THREAD_S)

    def _join(self) -> None:
        settings = self._settings
        while True:
            request = JoinGroupRequest(
                group_id=settings.group_id,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._identity.encode())],
            )
            answer = self._ask(request, settings.rebalance_timeout_ms + ANSWER_GRACE_MS)
            code = known_code(answer.error_code)
            self._member_id = answer.member_id or self._member_id
            if code is not ErrorCode.MEMBER_ID_REQUIRED:
                break
        self._check(code)
        self._generation = answer.generation_id
        self._sync(answer)

    def _sync(self, joined: JoinGroupResponse) -> None:
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id:
            chosen = elect({each.member_id: decode_identity(each.metadata) for each in joined.members}).encode()
            assignments = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=chosen) for each in joined.members
            ]
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        sent_at = time.monotonic()
        answer = self._ask(request, self._settings.rebalance_timeout_ms + ANSWER_GRACE_MS)
        self._check(known_code(answer.error_code))
        self._take(decode_assignment(answer.assignment), sent_at)

    def _take(self, assignment: Assignment, sent_at: float) -> None:
        if assignment.error == DUPLICATE_URLS:
            log.error(
                "several registries of group %s call themselves %s: give each a host.name and a port of its own",
                self._settings.group_id,
                self._identity.url,
            )
            self._on_assigned(None)
            return
        if assignment.primary is None:
            log.warning("no registry of group %s is eligible: nothing can be written", self._settings.group_id)
        self.lease_until = sent_at + self.lease_ms / 1000
        self._on_assigned(assignment.primary)

    def _stay(self) -> None:
        """Heartbeats until somebody joins or leaves."""
        interval_s = min(self._settings.heartbeat_interval_ms, self.lease_ms / 3) / 1000
        while not self._closing.wait(interval_s):
            request = HeartbeatRequest(
                group_id=self._settings.group_id, generation_id=self._generation, member_id=self._member_id
            )
            sent_at = time.monotonic()
            answer = self._ask(request, self._settings.session_timeout_ms)
            self._check(known_code(answer.error_code))
            self.lease_until = sent_at + self.lease_ms / 1000

    def _check(self, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        if code in REMOVED:
            self._member_id = ""
            raise Rejoin("this instance was removed")
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            raise Rejoin("the members have changed")
        if code in NOT_YET:
            self._forget_coordinator()
            self._closing.wait(RETRY_S)
            raise Rejoin("the coordinator has moved")
        raise Refused(code, f"Group {self._settings.group_id} does not take this instance")

    def _ask(self, request: Request, timeout_ms: int) -> Any:
        if self._connection is None or self._connection.closed:
            node_id = self._cluster.coordinator("group", self._settings.group_id)
            self._connection = self._cluster.new_connection(node_id)
        return self._connection.request(request, timeout_ms=timeout_ms)

    def _forget_coordinator(self) -> None:
        self._cluster.forget_coordinator("group", self._settings.group_id)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _leave(self) -> None:
        """Says good-bye, so that the others need not wait for the session to end."""
        if not self._member_id:
            return
        members = [MemberIdentity(member_id=self._member_id)]
        try:
            self._forget_coordinator()
            request = LeaveGroupRequest(group_id=self._settings.group_id, members=members)
            self._cluster.ask_coordinator("group", self._settings.group_id, request, within_ms=LEAVE_WITHIN_MS)
        except (ClientError, OSError) as error:
            log.info("group %s was not left: %s", self._settings.group_id, error)
