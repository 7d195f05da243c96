"""WriteTxnMarkers, key 27."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field, since


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = field(default_factory=list)


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = since(2, default=0, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = field(default_factory=list)


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


class WritableTxnMarkerTopicResult(Struct):
    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
