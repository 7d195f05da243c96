"""AddRaftVoter, versions 0 and 1: another controller for the quorum.

1 brought an answer before the change is committed. Deviations from Kafka: the quorum is this node alone, so a voter
that could be added is refused with UNSUPPORTED_VERSION; the errors before that are Kafka's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: AddRaftVoterRequest, node: Node) -> AddRaftVoterResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    check_voter(node, request.cluster_id, request.voter_id, request.voter_directory_id)
    wanted = node.config.advertised_controller_listeners[0].name
    if all(listener.name != wanted for listener in request.listeners):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The voter has no endpoint for the listener {wanted}.")
    if any(voter.replica_id == request.voter_id for voter in node.controller.quorum().voters):
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"Node {request.voter_id} is a voter already.")
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The quorum of this node cannot be enlarged.")


def check_voter(node: Node, cluster_id: str | None, voter_id: int, directory_id: Uuid) -> None:
    if cluster_id is not None and cluster_id != node.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is the cluster {node.cluster_id}.")
    if voter_id < 0 or directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A voter has an id and a directory.")
