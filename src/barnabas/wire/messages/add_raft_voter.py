"""AddRaftVoter, key 80."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class AddRaftVoterRequest(Request, key=80, versions="0-1", flexible="0+"):
    cluster_id: str | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    ack_when_committed: bool = since(1, default=True)


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
