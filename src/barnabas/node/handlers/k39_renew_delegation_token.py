"""RenewDelegationToken, versions 1 and 2: a token is valid for longer.

2 is flexible. Deviations from Kafka: none.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.delegation_tokens import renew_token
from barnabas.node.requests import RequestContext
from barnabas.node.security.tokens import require_known_client, require_rules
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster
    from barnabas.node.ports import Forwarding


async def handle(
    context: RequestContext, request: RenewDelegationTokenRequest, node: Forwarding
) -> RenewDelegationTokenResponse:
    require_known_client(context)
    response: RenewDelegationTokenResponse = await node.controller.execute(context, request)
    return response


def decide(
    context: RequestContext, request: RenewDelegationTokenRequest, cluster: Cluster
) -> ControllerDecision[RenewDelegationTokenResponse]:
    now_ms = time.time_ns() // 1_000_000
    return renew_token(cluster.image, request, context.principal, require_rules(cluster.config), now_ms)
