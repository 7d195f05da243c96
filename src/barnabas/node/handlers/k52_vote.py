"""Vote, versions 0 to 2: a voter stands for election, or asks whether it would win (pre-vote).

1 brought directory ids, 2 the pre-vote. The rules are `core/raft/voting.py`. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(context: RequestContext, request: VoteRequest, node: Metadata) -> VoteResponse:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return cast("VoteResponse", await node.raft.ask(request, context.api_version, context.listener))
