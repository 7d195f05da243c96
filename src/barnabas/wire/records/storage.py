"""Files beside the log."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Record, Struct, UInt32, field


class ProducerSnapshot(Record, versions="1"):
    crc: UInt32 = 0
    producer_entries: list[ProducerEntry] = field(default_factory=list)


class ProducerEntry(Struct):
    producer_id: Int64 = 0
    epoch: Int16 = 0
    last_sequence: Int32 = 0
    last_offset: Int64 = 0
    offset_delta: Int32 = 0
    timestamp: Int64 = 0
    coordinator_epoch: Int32 = 0
    current_txn_first_offset: Int64 = 0
