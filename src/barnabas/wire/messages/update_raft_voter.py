"""UpdateRaftVoter, key 82."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, UInt16, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class UpdateRaftVoterRequest(Request, key=82, versions="0", flexible="0+"):
    cluster_id: str | None = ""
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    k_raft_version_feature: KRaftVersionFeature = field(default_factory=lambda: KRaftVersionFeature())


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: CurrentLeader = field(default_factory=lambda: CurrentLeader(), tag=0)


class CurrentLeader(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: str = ""
    port: Int32 = 0
