"""AlterUserScramCredentials, version 0: credentials of users are set and deleted.

They are kept; listeners that ask for them (SASL) do not exist yet. Deviations from Kafka: none beside that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.scram import alter_user_scram_credentials
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: AlterUserScramCredentialsRequest, cluster: Cluster
) -> Steps[ControllerDecision[AlterUserScramCredentialsResponse]]:
    context.authorize(Operation.ALTER, Resource.cluster())
    return alter_user_scram_credentials.steps(cluster.image, request)


def error_response(request: AlterUserScramCredentialsRequest, error: KafkaError) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            for user in users
        ]
    )
