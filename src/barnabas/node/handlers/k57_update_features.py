"""UpdateFeatures, versions 0 to 2: which level of each feature the cluster has finalized.

0 asks for a downgrade by a flag, 1 by the type of the upgrade, and brought validating only; 2 answers without results
per feature. Deviations from Kafka: features whose APIs do not exist here cannot be raised, and metadata.version begins
at 25; kraft.version cannot be changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.features import update_features
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: UpdateFeaturesRequest, node: Node) -> UpdateFeaturesResponse:
    context.authorize(Operation.ALTER, Resource.cluster())
    return await node.controller.submit(lambda image: update_features(image, request, context.api_version))
