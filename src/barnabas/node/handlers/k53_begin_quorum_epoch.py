"""BeginQuorumEpoch, versions 0 and 1: a voter has been elected, and tells the others.

1 brought directory ids and endpoints. The rules are `core/raft/epochs.py`. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(context: RequestContext, request: BeginQuorumEpochRequest, node: Metadata) -> BeginQuorumEpochResponse:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return cast("BeginQuorumEpochResponse", await node.raft.ask(request, context.api_version, context.listener))
