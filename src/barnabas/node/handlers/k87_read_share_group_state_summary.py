"""ReadShareGroupStateSummary, versions 0 and 1: where a share partition begins, and in which epochs.

1 brought how many records behind the start are done with. Deviations from Kafka: none known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.share.records import ShareKey
from barnabas.node.handlers.share_states import each_partition
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

NOT_INITIALIZED = -1


async def handle(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest, node: Shares
) -> ReadShareGroupStateSummaryResponse:
    async def answer(key: ShareKey, asked: PartitionData) -> PartitionResult:
        state = node.share_coordinator.shard_for(key.coordinator_key).summary(key)
        if state is None:
            return PartitionResult(partition=key.partition, start_offset=NOT_INITIALIZED)
        return PartitionResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    found = await each_partition(
        context,
        request,
        node,
        answer,
        lambda index, code, message: PartitionResult(partition=index, error_code=code, error_message=message),
    )
    return ReadShareGroupStateSummaryResponse(
        results=[ReadStateSummaryResult(topic_id=topic_id, partitions=each) for topic_id, each in found]
    )
