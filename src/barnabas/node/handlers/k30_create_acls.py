"""CreateAcls, versions 1 to 3: new access control entries.

2 is flexible, 3 brought the type of users. There is no authorizer yet, so each is answered with SECURITY_DISABLED, as
Kafka does without one. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.k29_describe_acls import NO_AUTHORIZER
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: CreateAclsRequest, node: Node) -> CreateAclsResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    return error_response(request, KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))


def error_response(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    result = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[result] * len(request.creations))
