"""Records of __share_group_state that nobody needs any more are deleted.

The topic is not compacted: updates to a share partition add up to its state. So every state is written once more as a
snapshot, behind the log end as it was before; once the snapshots are committed, nothing before that offset is needed.
This takes the place of Kafka's two jobs, of which one writes snapshots of partitions that nobody uses and the other
deletes what lies before the oldest snapshot.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.core.share.shard import ShareStateShard
    from barnabas.node.broker.coordinators.shard import LedShard
    from barnabas.node.broker.shares.coordinator import ShareCoordinator

log = logging.getLogger("barnabas.shares")

# With fewer records for each state, snapshots of all of them would cost more than they save.
RECORDS_PER_STATE = 4
RECORDS_MIN = 500


async def prune_regularly(coordinator: ShareCoordinator, interval_ms: int) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await prune(coordinator)


async def prune(coordinator: ShareCoordinator) -> None:
    for led in coordinator:
        records = led.partition.log.log_end_offset - led.partition.log.log_start_offset
        if records > max(RECORDS_PER_STATE * len(led.shard.states), RECORDS_MIN):
            try:
                await _prune(coordinator, led)
            except KafkaError as error:
                # It is led by somebody else now, or the log cannot be written; the next round sees to it.
                log.info("%s: did not delete old share states: %s", led.partition.log.name, error)
            except Exception:
                log.exception(
                    "%s: could not delete old share states; the next round tries again", led.partition.log.name
                )


async def _prune(coordinator: ShareCoordinator, led: LedShard[ShareStateShard]) -> None:
    partition = led.partition
    needed_from = partition.log.log_end_offset
    for key in list(led.shard.states):
        await coordinator.submit_to(partition.index, lambda shard, key=key: shard.write_snapshot(key))  # type: ignore[misc]
    # Deletions of states are in the log too, perhaps not committed yet.
    needed_from = min(needed_from, partition.high_watermark)
    # Led by somebody else in between, the log may hold states before this offset that nobody here has written again.
    leads_since = not led.is_lost and partition.is_leader and partition.leader_epoch == led.leader_epoch
    if leads_since and partition.log.advance_log_start_offset(needed_from):
        partition.log_start_moved()
        log.info("%s: deleted old share states, the log starts at offset %d", partition.log.name, needed_from)
