"""DeleteAcls, versions 1 to 3: the access control entries that match a filter go.

2 is flexible, 3 brought the type of users. Without an authorizer each is
answered with SECURITY_DISABLED. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.acls import delete_acls
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.k29_describe_acls import NO_AUTHORIZER
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: DeleteAclsRequest, cluster: Cluster
) -> ControllerDecision[DeleteAclsResponse]:
    context.authorize(Operation.ALTER, Resource.cluster())
    if not cluster.config.value("authorizer.class.name"):
        return ControllerDecision([], error_response(request, KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)))
    return delete_acls(cluster.image, request)


def error_response(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))
