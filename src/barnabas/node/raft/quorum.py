"""What DescribeQuorum tells about the quorum."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.wire.records.raft import VotersRecord
from barnabas.wire.uuids import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica] = field(default_factory=list)
    # The voters' endpoints, where the voters are in the log (kraft.version 1).
    voters_record: VotersRecord | None = None
