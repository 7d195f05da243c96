"""DescribeUserScramCredentials, version 0: which mechanisms users have credentials for, never the credentials.

Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.scram import describe_user_scram_credentials
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import step_in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest, node: Metadata
) -> DescribeUserScramCredentialsResponse:
    context.authorize(Operation.DESCRIBE, Resource.cluster())
    return await step_in_turns(describe_user_scram_credentials.steps(node.image, request))


def error_response(
    request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """For the whole, and once more for each user without its name, as Kafka says it."""
    message = None if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else error.message
    each = DescribeUserScramCredentialsResult(error_code=error.code, error_message=message)
    results = [each] * len(request.users or ())
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=message, results=results)
