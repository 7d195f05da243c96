"""WriteShareGroupState, versions 0 and 1: how far the records of a share partition have come.

1 brought how many of them are done with. Deviations from Kafka: none known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.share.batches import StateBatch
from barnabas.core.share.records import ShareKey
from barnabas.node.handlers.share_states import each_partition
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Shares


async def handle(
    context: RequestContext, request: WriteShareGroupStateRequest, node: Shares
) -> WriteShareGroupStateResponse:
    async def answer(key: ShareKey, asked: PartitionData) -> PartitionResult:
        batches = [
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in asked.state_batches
        ]
        await node.share_coordinator.submit(
            key.coordinator_key,
            lambda shard: shard.write(
                key,
                asked.state_epoch,
                asked.leader_epoch,
                asked.start_offset,
                asked.delivery_complete_count,
                batches,
            ),
        )
        return PartitionResult(partition=key.partition)

    found = await each_partition(
        context,
        request,
        node,
        answer,
        lambda index, code, message: PartitionResult(partition=index, error_code=code, error_message=message),
    )
    return WriteShareGroupStateResponse(
        results=[WriteStateResult(topic_id=topic_id, partitions=each) for topic_id, each in found]
    )
