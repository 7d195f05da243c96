"""CreateAcls, versions 1 to 3: new access control entries.

2 is flexible, 3 brought the type of users. Without an authorizer each is
answered with SECURITY_DISABLED. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.acls import create_acls
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.k29_describe_acls import NO_AUTHORIZER
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: CreateAclsRequest, cluster: Cluster
) -> ControllerDecision[CreateAclsResponse]:
    context.authorize(Operation.ALTER, Resource.cluster())
    if not cluster.config.value("authorizer.class.name"):
        return ControllerDecision([], error_response(request, KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)))
    return create_acls(cluster.image, request, Uuid.random)


def error_response(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    result = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[result] * len(request.creations))
