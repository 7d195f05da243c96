"""InitializeShareGroupState, version 0: a share partition begins, or begins anew, in an epoch of its group.

Deviations from Kafka: none known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.share.records import ShareKey
from barnabas.node.handlers.share_states import each_partition
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Shares


async def handle(
    context: RequestContext, request: InitializeShareGroupStateRequest, node: Shares
) -> InitializeShareGroupStateResponse:
    async def answer(key: ShareKey, asked: PartitionData) -> PartitionResult:
        await node.share_coordinator.submit(
            key.coordinator_key, lambda shard: shard.initialize(key, asked.state_epoch, asked.start_offset)
        )
        return PartitionResult(partition=key.partition)

    found = await each_partition(
        context,
        request,
        node,
        answer,
        lambda index, code, message: PartitionResult(partition=index, error_code=code, error_message=message),
    )
    return InitializeShareGroupStateResponse(
        results=[InitializeStateResult(topic_id=topic_id, partitions=each) for topic_id, each in found]
    )
