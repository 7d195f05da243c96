"""Control records of the quorum: leader changes, snapshots, voters."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Record, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class LeaderChangeMessage(Record, versions="0-1", flexible="0+"):
    version: Int16 = 0
    leader_id: Int32 = 0
    voters: list[Voter] = field(default_factory=list)
    granting_voters: list[Voter] = field(default_factory=list)


class Voter(Struct):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = since(1, default=ZERO_UUID)


class SnapshotHeaderRecord(Record, versions="0", flexible="0+"):
    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


class SnapshotFooterRecord(Record, versions="0", flexible="0+"):
    version: Int16 = 0


class KRaftVersionRecord(Record, versions="0", flexible="0+"):
    version: Int16 = 0
    k_raft_version: Int16 = 0


class VotersRecord(Record, versions="0", flexible="0+"):
    version: Int16 = 0
    voters: list[VotersVoter] = field(default_factory=list)


class VotersVoter(Struct):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: list[Endpoint] = field(default_factory=list)
    k_raft_version_feature: KRaftVersionFeature = field(default_factory=lambda: KRaftVersionFeature())


class Endpoint(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0
