"""Metadata, key 3."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = field(default_factory=list, nullable="1+")
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    include_topic_authorized_operations: bool = since(8, default=False)


class MetadataRequestTopic(Struct):
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: str | None = field(default="", nullable="10+")


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)
    error_code: Int16 = since(13, default=0, ignorable=True)


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = since(1, default=None, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: str | None = field(default="", nullable="12+")
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    is_internal: bool = since(1, default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = since(8, default=-2147483648)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    offline_replicas: list[Int32] = since(5, default_factory=list, ignorable=True)
