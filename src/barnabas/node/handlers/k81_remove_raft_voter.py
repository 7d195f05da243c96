"""RemoveRaftVoter, version 0: a controller less in the quorum.

The last one cannot be removed. The rules are `core/raft/changing.py`. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


async def ask_quorum(
    context: RequestContext, request: RemoveRaftVoterRequest, cluster: Cluster
) -> RemoveRaftVoterResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    answer = await cluster.raft.ask(request, context.api_version, context.listener)
    if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # type: ignore[attr-defined]
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
    return cast("RemoveRaftVoterResponse", answer)
