"""RemoveRaftVoter, version 0: a controller less in the quorum.

Deviations from Kafka: the quorum is this node alone, which cannot leave it: UNSUPPORTED_VERSION; the errors before that
are Kafka's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.k80_add_raft_voter import check_voter
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: RemoveRaftVoterRequest, node: Node) -> RemoveRaftVoterResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    check_voter(node, request.cluster_id, request.voter_id, request.voter_directory_id)
    asked = (request.voter_id, request.voter_directory_id)
    if all((voter.replica_id, voter.directory_id) != asked for voter in node.controller.quorum().voters):
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"Node {request.voter_id} with this directory is no voter.")
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The only voter cannot be removed.")
