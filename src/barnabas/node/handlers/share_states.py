"""What the five requests to the share coordinator have in common: many share partitions, an answer for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from barnabas.core.security.model import Operation, Resource
from barnabas.core.share.records import ShareKey
from barnabas.node.handlers.group_protocols import require_share_protocol
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

Answer = Callable[[ShareKey, Any], Awaitable[Any]]
Refuse = Callable[[int, ErrorCode, str], Any]


async def each_partition(
    context: RequestContext, request: Any, node: Shares, answer: Answer, refuse: Refuse
) -> list[tuple[Any, list[Any]]]:
    """Of each topic of the request its results; other brokers ask, nobody else may."""
    results = []
    async for topic in in_turns(request.topics):
        partitions = []
        async for asked in in_turns(topic.partitions):
            try:
                require_share_protocol(node)
                context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
                if not request.group_id:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "The group id must not be empty.")
                key = ShareKey(request.group_id, topic.topic_id, asked.partition)
                partitions.append(await answer(key, asked))
            except Exception as fault:
                error = item_error(fault, "the state of a share partition")
                partitions.append(refuse(asked.partition, error.code, error.message or error.code.name))
        results.append((topic.topic_id, partitions))
    return results
