"""Where a share group begins in a partition that it has never been in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from barnabas.node.broker.partition import Partition
from barnabas.wire.batch import read_header

if TYPE_CHECKING:
    from barnabas.node.ports import Logs

_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


async def reset_offset(node: Logs, partition: Partition, strategy: str, read_committed: bool) -> int:
    """`strategy` is earliest, latest, or by_duration with an ISO-8601 duration back from now."""
    if strategy == "earliest":
        return partition.log.log_start_offset
    end_offset = partition.readable_end(read_committed)
    duration = _DURATION.fullmatch(strategy)
    if duration is None:
        return end_offset
    back_ms = sum(float(duration[unit] or 0) * ms for unit, ms in _MS.items())
    timestamp = node.clock() - int(back_ms)
    batch = partition.log.batch_for_timestamp(timestamp, 0, 1 << 30)
    while batch is not None:
        found = await node.recompression.first_record(batch, timestamp, partition.log.log_start_offset)
        if found is not None:
            return min(found.offset, end_offset)
        batch = partition.log.batch_for_timestamp(timestamp, read_header(batch).last_offset + 1, 1 << 30)
    return end_offset
