"""DescribeGroups, versions 0 to 6: state, protocol and members of groups.

3 brought the operations the caller may do, 4 static members, 6 an error for a group that is not there: before, it is
answered as a dead one. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.groups.java_order import java_ordered
from barnabas.core.groups.state import ClassicGroup, Phase
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns, next_turn
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

# What members have said is copied into the answer: one with more is encoded in turns.
BYTES_AT_ONCE = 1 << 20
SAYS_NOT_FOUND = 6


async def handle(context: RequestContext, request: DescribeGroupsRequest, node: Groups) -> DescribeGroupsResponse:
    groups: dict[str, DescribedGroup] = {}
    sizes: dict[str, int] = {}
    async for group_id in in_turns(dict.fromkeys(request.groups)):
        try:
            context.authorize(Operation.DESCRIBE, Resource.group(group_id))
            described = _describe(context, group_id, node)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = context.authorized_operations(Resource.group(group_id))
        except KafkaError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code)
        groups[group_id] = described
        sizes[group_id] = _size(described) if described.members else 0
    if sum(map(sizes.__getitem__, request.groups)) > BYTES_AT_ONCE:
        await next_turn()
    return DescribeGroupsResponse(groups=[groups[group_id] for group_id in request.groups])


def _size(group: DescribedGroup) -> int:
    return sum(len(each.member_metadata) + len(each.member_assignment) for each in group.members)


def _describe(context: RequestContext, group_id: str, node: Groups) -> DescribedGroup:
    group = node.groups.shard_for(group_id).committed_group(group_id)
    if not isinstance(group, ClassicGroup):
        described = DescribedGroup(group_id=group_id, group_state=Phase.DEAD.value)
        if context.api_version >= SAYS_NOT_FOUND:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {'not found' if group is None else 'is not a classic group'}."
        return described
    is_stable = group.phase is Phase.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.phase.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=_members(group, is_stable),
    )


def _members(group: ClassicGroup, is_stable: bool) -> list[DescribedGroupMember]:
    return [
        DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol_name or "") if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in map(group.members.__getitem__, java_ordered(group.members))
    ]
