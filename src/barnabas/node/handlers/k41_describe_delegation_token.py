"""DescribeDelegationToken, versions 1 to 3: the tokens that the caller owns, may renew or may see.

2 is flexible, 3 tells who has asked for a token. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.delegation_tokens import describe_tokens
from barnabas.core.security.model import Operation, Resource, ResourceType
from barnabas.node.requests import RequestContext
from barnabas.node.security.tokens import require_known_client, require_rules
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.wire.records.metadata import DelegationTokenRecord

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata

REQUESTER_SINCE = 3


async def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest, node: Metadata
) -> DescribeDelegationTokenResponse:
    require_known_client(context)
    rules = require_rules(node.config)

    def may_describe(token: DelegationTokenRecord) -> bool:
        return context.may(Operation.DESCRIBE, Resource(ResourceType.DELEGATION_TOKEN, token.token_id)) or context.may(
            Operation.DESCRIBE_TOKENS, Resource(ResourceType.USER, token.owner)
        )

    says_requester = context.api_version >= REQUESTER_SINCE
    return describe_tokens(node.image, request, context.principal, rules, may_describe, says_requester=says_requester)
