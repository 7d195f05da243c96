"""Heartbeat, versions 0 to 4: a member is still there, and learns whether its group rebalances.

3 brought static members. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Groups


async def handle(context: RequestContext, request: HeartbeatRequest, node: Groups) -> HeartbeatResponse:
    if not context.may_everything:
        context.authorize(Operation.READ, Resource.group(request.group_id))
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    try:
        return await node.groups.submit(request.group_id, lambda shard: shard.members.heartbeat(request))
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        raise
