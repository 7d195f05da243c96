"""DescribeUserScramCredentials, version 0: which mechanisms users have credentials for, never the credentials.

Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.scram import describe_user_scram_credentials
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest, node: Node
) -> DescribeUserScramCredentialsResponse:
    context.authorize(Operation.DESCRIBE, Resource.cluster())
    return describe_user_scram_credentials(node.image, request)
