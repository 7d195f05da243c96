"""DeleteGroups, versions 0 to 2: groups without members, with all their offsets.

Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: DeleteGroupsRequest, node: Node) -> DeleteGroupsResponse:
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        results.append(DeletableGroupResult(group_id=group_id, error_code=await _delete(context, group_id, node)))
    return DeleteGroupsResponse(results=results)


async def _delete(context: RequestContext, group_id: str, node: Node) -> int:
    try:
        context.authorize(Operation.DELETE, Resource.group(group_id))
        return await node.groups.submit(group_id, lambda shard: shard.delete_group(group_id))
    except KafkaError as error:
        return error.code
