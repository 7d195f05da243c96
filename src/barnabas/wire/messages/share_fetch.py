"""ShareFetch, key 78."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Records, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ShareFetchRequest(Request, key=78, versions="1-2", flexible="0+"):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = since(2, default=0, ignorable=True)
    is_renew_ack: bool = since(2, default=False)
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)


class FetchTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


class FetchPartition(Struct):
    partition_index: Int32 = 0
    partition_max_bytes: Int32 = field("0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = field(default_factory=list)


class ForgottenTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


class ShareFetchResponse(Response, key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=lambda: LeaderIdAndEpoch())
    records: Records = b""
    acquired_records: list[AcquiredRecords] = field(default_factory=list)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
