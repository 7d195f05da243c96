"""DeleteGroups, versions 0 to 2: groups without members, with all their offsets.

Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.shares.initializing import delete_states
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Shares


async def handle(context: RequestContext, request: DeleteGroupsRequest, node: Shares) -> DeleteGroupsResponse:
    results = []
    async for group_id in in_turns(dict.fromkeys(request.groups_names)):
        results.append(DeletableGroupResult(group_id=group_id, error_code=await _delete(context, group_id, node)))
    return DeleteGroupsResponse(results=results)


async def _delete(context: RequestContext, group_id: str, node: Shares) -> int:
    try:
        context.authorize(Operation.DELETE, Resource.group(group_id))
        if isinstance(node.groups.shard_for(group_id).committed_group(group_id), ShareGroup):
            # First what the share coordinator knows of it.
            gone = await node.groups.submit(group_id, lambda shard: shard.members.begin_deletion(group_id, None))
            await delete_states(node, group_id, gone)
        return await node.groups.submit(group_id, lambda shard: shard.delete_group(group_id))
    except KafkaError as error:
        return error.code
