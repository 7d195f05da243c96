"""DescribeCluster, key 60."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since


class DescribeClusterRequest(Request, key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = False
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: bool = since(2, default=False)


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: Int32 = -2147483648


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
    is_fenced: bool = since(2, default=False)
