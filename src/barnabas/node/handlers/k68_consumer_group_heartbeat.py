"""ConsumerGroupHeartbeat, versions 0 and 1: a member of a consumer group joins, stays, reconciles or leaves.

1 brought subscriptions by regular expression, and that the client makes the member's id. Deviations from Kafka: regular
expressions have bounds (`core/patterns`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.groups.consumer.decide import JOINING, NO_TIMEOUT, Asker
from barnabas.core.groups.modern import LEAVING, LEAVING_FOR_A_WHILE
from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.group_protocols import require_consumer_protocol
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

CLIENT_MAKES_THE_ID = 1


async def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, node: Groups
) -> ConsumerGroupHeartbeatResponse:
    try:
        require_consumer_protocol(node)
        if not context.may(Operation.READ, Resource.group(request.group_id)):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if any(not _may_describe(context, topic) for topic in request.subscribed_topic_names or ()):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        _check(context.api_version, request, node.groups.consumer_settings(request.group_id).assignors)
        asker = Asker(context.client_id or "", f"/{context.client_host}", lambda topic: _may_describe(context, topic))
        return await node.groups.submit(
            request.group_id, lambda shard: shard.members.consumer_heartbeat(request, asker)
        )
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


def _may_describe(context: RequestContext, topic: str) -> bool:
    return context.may(Operation.DESCRIBE, Resource.topic(topic))


def _check(version: int, request: ConsumerGroupHeartbeatRequest, assignors: tuple[str, ...]) -> None:
    epoch = request.member_epoch
    if version >= CLIENT_MAKES_THE_ID or epoch > 0 or epoch == LEAVING:
        _require(bool(request.member_id), "MemberId can't be empty.")
    _require(bool(request.group_id), "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if epoch == JOINING:
        subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        timed = request.rebalance_timeout_ms != NO_TIMEOUT
        _require(timed, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        _require(subscribes, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVING_FOR_A_WHILE:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    _require(epoch >= LEAVING_FOR_A_WHILE, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, otherwise)
