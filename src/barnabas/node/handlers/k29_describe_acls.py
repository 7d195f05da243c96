"""DescribeAcls, versions 1 to 3: which access control entries match a filter.

2 is flexible, 3 brought the type of users. Without an authorizer the answer is
SECURITY_DISABLED. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.acls import describe_acls
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


NO_AUTHORIZER = "No authorizer is configured."


async def handle(context: RequestContext, request: DescribeAclsRequest, node: Metadata) -> DescribeAclsResponse:
    context.authorize(Operation.DESCRIBE, Resource.cluster())
    if not node.config.value("authorizer.class.name"):
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return describe_acls(node.image, request)
