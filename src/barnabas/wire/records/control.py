"""Keys and values of control batches in partitions."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Record


class ControlRecordTypeSchema(Record, versions="0"):
    type: Int16 = 0


class EndTxnMarker(Record, versions="0"):
    coordinator_epoch: Int32 = 0
