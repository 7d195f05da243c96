"""JoinGroup, versions 0 to 9: a member joins a group, or joins again, and waits until its generation begins.

1 brought a rebalance timeout of its own (before, it is the session's), 4 that a new member is first given its id, 5
static members, 7 the protocol's type in the answer, 8 a reason, 9 that a leader may skip its assignment. Deviations
from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.groups.membership import Caller
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

SAYS_PROTOCOL_TYPE = 7


async def handle(context: RequestContext, request: JoinGroupRequest, node: Groups) -> JoinGroupResponse:
    try:
        response = await _join(context, request, node)
    except KafkaError as error:
        is_denied = error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        response = JoinGroupResponse(member_id="" if is_denied else request.member_id, error_code=error.code)
    if response.error_code:
        response.protocol_name = None if context.api_version >= SAYS_PROTOCOL_TYPE else ""
    return response


async def _join(context: RequestContext, request: JoinGroupRequest, node: Groups) -> JoinGroupResponse:
    version = context.api_version
    context.authorize(Operation.READ, Resource.group(request.group_id))
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    settings = node.groups.settings()
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    if version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    caller = Caller(
        context.client_id or "",
        f"/{context.client_host}",
        must_know_its_id=version >= 4,
        can_skip_assignment=version >= 9,
    )
    return await node.groups.submit(request.group_id, lambda shard: shard.members.join(request, caller))
