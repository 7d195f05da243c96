"""ShareAcknowledge, key 79."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ShareAcknowledgeRequest(Request, key=79, versions="1-2", flexible="0+"):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: bool = since(2, default=False)
    topics: list[AcknowledgeTopic] = field(default_factory=list)


class AcknowledgeTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = field(default_factory=list)


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = field(default_factory=list)


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=lambda: LeaderIdAndEpoch())


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
