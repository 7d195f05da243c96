"""CreateDelegationToken, versions 1 to 3: a token by which others may log in as its owner.

2 is flexible, 3 brought owners other than who asks. Deviations from Kafka: none.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.delegation_tokens import create_token, owner_of
from barnabas.core.security.model import Operation, Resource, ResourceType
from barnabas.node.requests import RequestContext
from barnabas.node.security.tokens import require_known_client, require_rules
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster
    from barnabas.node.ports import Forwarding

REQUESTER_SINCE = 3


async def handle(
    context: RequestContext, request: CreateDelegationTokenRequest, node: Forwarding
) -> CreateDelegationTokenResponse:
    try:
        require_known_client(context)
        owner = owner_of(request, context.principal)
        may_create = context.may(Operation.CREATE_TOKENS, Resource(ResourceType.USER, owner))
        if owner != context.principal and not may_create:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        response: CreateDelegationTokenResponse = await node.controller.execute(context, request)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        response = _refusal(context, request, error)
    if context.api_version >= REQUESTER_SINCE:
        kind, _, name = context.principal.partition(":")
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response


def decide(
    context: RequestContext, request: CreateDelegationTokenRequest, cluster: Cluster
) -> ControllerDecision[CreateDelegationTokenResponse]:
    rules = require_rules(cluster.config)
    now_ms = time.time_ns() // 1_000_000
    return create_token(cluster.image, request, context.principal, rules, now_ms, lambda: str(Uuid.random()))


def _refusal(
    context: RequestContext, request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    owner = owner_of(request, context.principal).partition(":")
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner[0],
        principal_name=owner[2],
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
