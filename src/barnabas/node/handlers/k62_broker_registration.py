"""BrokerRegistration, versions 0 to 4: a broker makes itself known.

1 brought brokers of ZooKeeper clusters (refused), 2 log directories, 3 the epoch of the former registration. The broker
in the process of a controller that is the whole quorum is in service at once. Deviations from Kafka: who has a log
directory of the registered broker need not wait for the former session to end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.core.controller.brokers import register_broker
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.registration import register
from barnabas.core.security.model import Operation, Resource
from barnabas.node.log_limiter import LogLimiter
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster

log = logging.getLogger("barnabas.node")
_limiter = LogLimiter()


def decide(
    context: RequestContext, request: BrokerRegistrationRequest, cluster: Cluster
) -> ControllerDecision[BrokerRegistrationResponse]:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    if context.is_own and cluster.is_alone_with(request.broker_id):
        decision = register_broker(cluster.image, request)
        epoch = decision.response.broker_epoch
        cluster.sessions.register(request.broker_id, epoch, epoch)
        cluster.sessions.touch(request.broker_id, cluster.clock())
        return decision
    try:
        return register(
            cluster.image,
            request,
            cluster.sessions,
            cluster.rules,
            cluster_id=cluster.cluster_id,
            now_ms=cluster.clock(),
        )
    except KafkaError as error:
        if _limiter.allows(error.code):
            listener = next((f"{each.host}:{each.port}" for each in request.listeners), "no listener")
            log.warning("The broker at %s is refused (%s): %s", listener, error.code.name, error.message)
        raise
