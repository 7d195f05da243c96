"""AlterPartition, versions 2 and 3: the leader of a partition tells who is in sync with it.

3 brought the epochs in which the leader knows the members. The rules are `core/controller/isr.py`. Deviations from
Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.isr import alter_partition
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: AlterPartitionRequest, cluster: Cluster
) -> ControllerDecision[AlterPartitionResponse]:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    return alter_partition(cluster.image, request, cluster.rules)
