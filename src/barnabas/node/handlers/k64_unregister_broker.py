"""UnregisterBroker, version 0: a broker that is gone for good is forgotten.

Deviations from Kafka: the node refuses to forget itself; Kafka forgets it, and it registers anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.reassignment import unregister_broker
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: UnregisterBrokerRequest, node: Node) -> UnregisterBrokerResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    return await node.controller.submit(lambda image: unregister_broker(image, request.broker_id, node.node_id))
