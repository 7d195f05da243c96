"""ControllerRegistration: a controller makes itself known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.brokers import register_controller
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: ControllerRegistrationRequest, cluster: Cluster
) -> ControllerDecision[ControllerRegistrationResponse]:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return register_controller(request)
