"""ListGroups, versions 0 to 5: the groups this node coordinates that the caller may see.

4 brought the filter by state, 5 the filter by type. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: ListGroupsRequest, node: Node) -> ListGroupsResponse:
    if node.groups.is_loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    sees_all = context.may(Operation.DESCRIBE, Resource.cluster())
    listed = [
        ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type or "",
            group_state=group.phase.value,
            group_type=group.type.value,
        )
        for led in node.groups
        for group in led.shard.list_groups(request.states_filter, request.types_filter)
        if sees_all or context.may(Operation.DESCRIBE, Resource.group(group.id))
    ]
    return ListGroupsResponse(groups=listed)
