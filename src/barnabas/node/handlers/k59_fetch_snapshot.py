"""FetchSnapshot, versions 0 and 1: a piece of a snapshot of the metadata log.

1 brought directory ids and endpoints. The rules are `core/raft/leading.py`. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(context: RequestContext, request: FetchSnapshotRequest, node: Metadata) -> FetchSnapshotResponse:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return cast("FetchSnapshotResponse", await node.raft.ask(request, context.api_version, context.listener))
