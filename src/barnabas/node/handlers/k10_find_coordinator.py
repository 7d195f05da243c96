"""FindCoordinator, versions 0 to 6: the broker that coordinates a group or a transactional id.

1 brought the type of the key, 4 several keys at once, 6 the keys of share partitions. Deviations from Kafka: the
internal topic is made before the answer to the first who asks, who therefore need not ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import DENIED, Operation, Resource
from barnabas.node.broker.leaders import leader_endpoint
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.broker.coordinators.groups import GroupCoordinator
    from barnabas.node.broker.shares.coordinator import ShareCoordinator
    from barnabas.node.broker.transactions.coordinator import TransactionCoordinator
    from barnabas.node.ports import Finding

GROUP, TRANSACTION, SHARE = 0, 1, 2
SEVERAL_KEYS = 4
SHARE_KEYS = 6


async def handle(context: RequestContext, request: FindCoordinatorRequest, node: Finding) -> FindCoordinatorResponse:
    if context.api_version >= SEVERAL_KEYS:
        found = [await _find(context, request.key_type, key, node) async for key in in_turns(request.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=found)
    one = await _find(context, request.key_type, request.key, node)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(context: RequestContext, key_type: int, key: str, node: Finding) -> Coordinator:
    try:
        coordinator = _coordinator(context, key_type, key, node)
        await coordinator.create_topic()
        leader = leader_endpoint(node.image, (coordinator.leader_of(key), -1), context.listener)
        if leader is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except KafkaError as error:
        message = error.message or error.code.name
        if error.code in DENIED.values() and context.api_version >= SEVERAL_KEYS and key_type != SHARE:
            message = ""
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=message)
    message = "NONE" if context.api_version < SEVERAL_KEYS else ""
    return Coordinator(key=key, node_id=leader.node_id, host=leader.host, port=leader.port, error_message=message)


def _coordinator(
    context: RequestContext, key_type: int, key: str, node: Finding
) -> GroupCoordinator | TransactionCoordinator | ShareCoordinator:
    if key_type == GROUP:
        context.authorize(Operation.DESCRIBE, Resource.group(key))
        return node.groups
    if key_type == TRANSACTION:
        context.authorize(Operation.DESCRIBE, Resource.transactional_id(key))
        return node.transactions
    if key_type == SHARE and context.api_version >= SHARE_KEYS:
        context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
        _check_share_key(key)
        return node.share_coordinator
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no coordinator for keys of type {key_type}.")


def _check_share_key(key: str) -> None:
    """group:topic id:partition"""
    parts = key.rsplit(":", 2)
    try:
        if len(parts) != 3 or not parts[0] or int(parts[2]) < 0:
            raise ValueError(key)
        Uuid.parse(parts[1])
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{key}' is not the key of a share partition.") from None
