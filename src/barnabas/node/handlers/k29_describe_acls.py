"""DescribeAcls, versions 1 to 3: which access control entries match a filter.

2 is flexible, 3 brought the type of users. There is no authorizer yet, so the answer is SECURITY_DISABLED, as Kafka's
is without one. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node


NO_AUTHORIZER = "No authorizer is configured."


async def handle(context: RequestContext, request: DescribeAclsRequest, node: Node) -> DescribeAclsResponse:
    context.authorize(Operation.DESCRIBE, Resource.cluster())
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
