"""SyncGroup, versions 0 to 5: the leader brings the assignment, everybody else fetches its part and waits for it.

3 brought static members, 5 the protocol, so that a member which took part in another one notices. Deviations from
Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

SAYS_PROTOCOL = 5


async def handle(context: RequestContext, request: SyncGroupRequest, node: Groups) -> SyncGroupResponse:
    if context.api_version >= SAYS_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    context.authorize(Operation.READ, Resource.group(request.group_id))
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    return await node.groups.submit(request.group_id, lambda shard: shard.members.sync(request))
