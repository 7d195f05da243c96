"""ShareGroupHeartbeat, version 1: a member of a share group joins, stays or leaves.

Deviations from Kafka: none known.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.core.groups.modern import LEAVING
from barnabas.core.groups.share.decide import JOINING
from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.shares.initializing import initialize
from barnabas.node.handlers.group_protocols import checked_share_member_id, require_share_protocol
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

_running: set[asyncio.Task[None]] = set()


async def handle(
    context: RequestContext, request: ShareGroupHeartbeatRequest, node: Shares
) -> ShareGroupHeartbeatResponse:
    try:
        require_share_protocol(node)
        if not context.may(Operation.READ, Resource.group(request.group_id)):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        checked_share_member_id(request.member_id)
        for topic in request.subscribed_topic_names or ():
            if not context.may(Operation.DESCRIBE, Resource.topic(topic)):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        _check(request)
        client_id, client_host = context.client_id or "", f"/{context.client_host}"
        answer = await node.groups.submit(
            request.group_id, lambda shard: shard.members.share_heartbeat(request, client_id, client_host)
        )
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)
    if answer.to_initialize is not None:
        task = asyncio.ensure_future(initialize(node, answer.to_initialize))
        _running.add(task)
        task.add_done_callback(_running.discard)
    return answer.response


def _check(request: ShareGroupHeartbeatRequest) -> None:
    _require(bool(request.group_id), "GroupId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if request.member_epoch == JOINING:
        _require(bool(request.subscribed_topic_names), "SubscribedTopicNames must be set in first request.")
    _require(request.member_epoch >= LEAVING, "MemberEpoch is invalid.")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, otherwise)
