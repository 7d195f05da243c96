"""AddRaftVoter, versions 0 and 1: another controller for the quorum.

1 brought an answer before the change is committed. The rules are `core/raft/changing.py`. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


async def ask_quorum(context: RequestContext, request: AddRaftVoterRequest, cluster: Cluster) -> AddRaftVoterResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    answer = await cluster.raft.ask(request, context.api_version, context.listener)
    if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # type: ignore[attr-defined]
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
    return cast("AddRaftVoterResponse", answer)
