"""RemoveRaftVoter, key 81."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response
from barnabas.wire.uuids import ZERO_UUID, Uuid


class RemoveRaftVoterRequest(Request, key=81, versions="0", flexible="0+"):
    cluster_id: str | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
