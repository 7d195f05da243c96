"""DescribeClientQuotas, versions 0 and 1: the limits of the entities that match a filter.

1 is flexible. Quotas are kept and told, not enforced yet. Deviations from Kafka: none beside that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.quotas import describe_client_quotas
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(
    context: RequestContext, request: DescribeClientQuotasRequest, node: Metadata
) -> DescribeClientQuotasResponse:
    context.authorize(Operation.DESCRIBE_CONFIGS, Resource.cluster())
    return describe_client_quotas(node.image, request)


def error_response(request: DescribeClientQuotasRequest, error: KafkaError) -> DescribeClientQuotasResponse:
    message = None if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else error.message
    return DescribeClientQuotasResponse(error_code=error.code, error_message=message, entries=None)
