"""Which batches a reader of committed records sees: no control batches, and none of aborted transactions."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from barnabas.pipelines.spark.decoding import RawBatch
from barnabas.wire.batch import decode_records

ABORT = 0
CONTROL_KEY = struct.Struct(">hh")  # version, type


def committed(
    data: bytes | bytearray | memoryview, batches: Sequence[RawBatch], aborted: Sequence[tuple[int, int]]
) -> list[RawBatch]:
    """`aborted` is the broker's list for these batches: who aborted, and where the transaction began."""
    begins = sorted(((first_offset, producer_id) for producer_id, first_offset in aborted), reverse=True)
    aborting: set[int] = set()
    seen: list[RawBatch] = []
    for batch in batches:
        header = batch.header
        while begins and begins[-1][0] <= header.last_offset:
            aborting.add(begins.pop()[1])
        if header.is_control:
            if _ends_in_abort(data, batch):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            seen.append(batch)
    return seen


def _ends_in_abort(data: bytes | bytearray | memoryview, batch: RawBatch) -> bool:
    whole = memoryview(data)[batch.position : batch.position + batch.header.size]
    return any(
        record.key is not None and CONTROL_KEY.unpack_from(record.key)[1] == ABORT for record in decode_records(whole)
    )
