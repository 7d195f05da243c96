"""EndQuorumEpoch, versions 0 and 1: the leader of the quorum resigns, and says who should follow it.

1 brought directory ids and endpoints. The rules are `core/raft/epochs.py`. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(context: RequestContext, request: EndQuorumEpochRequest, node: Metadata) -> EndQuorumEpochResponse:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return cast("EndQuorumEpochResponse", await node.raft.ask(request, context.api_version, context.listener))
