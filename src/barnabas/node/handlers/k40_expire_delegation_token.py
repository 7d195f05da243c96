"""ExpireDelegationToken, versions 1 and 2: a token is valid for less long, or no longer.

2 is flexible. Deviations from Kafka: none.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.delegation_tokens import expire_token
from barnabas.node.requests import RequestContext
from barnabas.node.security.tokens import require_known_client, require_rules
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster
    from barnabas.node.ports import Forwarding


async def handle(
    context: RequestContext, request: ExpireDelegationTokenRequest, node: Forwarding
) -> ExpireDelegationTokenResponse:
    require_known_client(context)
    response: ExpireDelegationTokenResponse = await node.controller.execute(context, request)
    return response


def decide(
    context: RequestContext, request: ExpireDelegationTokenRequest, cluster: Cluster
) -> ControllerDecision[ExpireDelegationTokenResponse]:
    now_ms = time.time_ns() // 1_000_000
    return expire_token(cluster.image, request, context.principal, require_rules(cluster.config), now_ms)
