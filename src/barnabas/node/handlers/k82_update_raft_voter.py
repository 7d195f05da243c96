"""UpdateRaftVoter, version 0: a voter tells its endpoints and the kraft.versions that it supports.

The rules are `core/raft/changing.py`. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(context: RequestContext, request: UpdateRaftVoterRequest, node: Metadata) -> UpdateRaftVoterResponse:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return cast("UpdateRaftVoterResponse", await node.raft.ask(request, context.api_version, context.listener))
