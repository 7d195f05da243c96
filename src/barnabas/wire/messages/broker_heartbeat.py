"""BrokerHeartbeat, key 63."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, since
from barnabas.wire.uuids import Uuid


class BrokerHeartbeatRequest(Request, key=63, versions="0-2", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[Uuid] = since(1, default_factory=list, tag=0)
    cordoned_log_dirs: list[Uuid] | None = since(2, default=None, tag=1)


class BrokerHeartbeatResponse(Response, key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
