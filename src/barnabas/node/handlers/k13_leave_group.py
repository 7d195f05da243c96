"""LeaveGroup, versions 0 to 5: members leave, and the group need not wait for their sessions to end.

3 brought several members at once, static ones by their names, 5 a reason. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

SEVERAL_MEMBERS = 3


async def handle(context: RequestContext, request: LeaveGroupRequest, node: Groups) -> LeaveGroupResponse:
    context.authorize(Operation.READ, Resource.group(request.group_id))
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if context.api_version < SEVERAL_MEMBERS:
        request.members = [MemberIdentity(member_id=request.member_id)]
    response = await node.groups.submit(request.group_id, lambda shard: shard.members.leave(request))
    if context.api_version < SEVERAL_MEMBERS:
        return LeaveGroupResponse(error_code=response.members[0].error_code)
    return response
