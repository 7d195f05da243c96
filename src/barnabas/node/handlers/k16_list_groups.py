"""ListGroups, versions 0 to 5: the groups this node coordinates that the caller may see.

4 brought the filter by state, 5 the filter by type. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Groups


async def handle(context: RequestContext, request: ListGroupsRequest, node: Groups) -> ListGroupsResponse:
    if node.groups.is_loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    sees_all = context.may(Operation.DESCRIBE, Resource.cluster())
    states = {each.lower().strip() async for each in in_turns(request.states_filter)}
    types = {each.lower() async for each in in_turns(request.types_filter)}
    listed = [
        ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type or "",
            group_state=group.state_name,
            group_type=group.type.value,
        )
        for led in node.groups
        async for group in in_turns(led.shard.list_groups(states, types))
        if sees_all or context.may(Operation.DESCRIBE, Resource.group(group.id))
    ]
    return ListGroupsResponse(groups=listed)
