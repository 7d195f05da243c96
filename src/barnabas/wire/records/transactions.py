"""Records of __transaction_state."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Record, Struct, field, since


class TransactionLogKey(Record, key=0, versions="0"):
    transactional_id: str = ""


class TransactionLogValue(Record, key=0, versions="0-1", flexible="1+"):
    producer_id: Int64 = 0
    previous_producer_id: Int64 = since(1, default=-1, tag=0)
    next_producer_id: Int64 = since(1, default=-1, tag=1)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = since(1, default=-1, tag=3)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = since(1, default=0, tag=2)


class PartitionsSchema(Struct):
    topic: str = ""
    partition_ids: list[Int32] = field(default_factory=list)
