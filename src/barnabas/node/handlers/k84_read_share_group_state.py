"""ReadShareGroupState, version 0: the leader of a partition begins to serve it for a share group.

Deviations from Kafka: none known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.share.records import ShareKey
from barnabas.node.handlers.share_states import each_partition
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Shares


async def handle(
    context: RequestContext, request: ReadShareGroupStateRequest, node: Shares
) -> ReadShareGroupStateResponse:
    async def answer(key: ShareKey, asked: PartitionData) -> PartitionResult:
        state = await node.share_coordinator.submit(
            key.coordinator_key, lambda shard: shard.read(key, asked.leader_epoch)
        )
        return PartitionResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[StateBatch(**each._asdict()) for each in state.batches],
        )

    found = await each_partition(
        context,
        request,
        node,
        answer,
        lambda index, code, message: PartitionResult(partition=index, error_code=code, error_message=message),
    )
    return ReadShareGroupStateResponse(
        results=[ReadStateResult(topic_id=topic_id, partitions=each) for topic_id, each in found]
    )
