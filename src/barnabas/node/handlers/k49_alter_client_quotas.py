"""AlterClientQuotas, versions 0 and 1: limits of users, client ids and addresses.

1 is flexible. Quotas are kept and told, not enforced yet. Deviations from Kafka: none beside that.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.quotas import IP, alter_client_quotas
from barnabas.core.security.model import Operation, Resource
from barnabas.core.steps import Steps
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster, Decide


async def prepare(context: RequestContext, request: AlterClientQuotasRequest) -> Decide:
    """Finds out which of the hosts exist."""
    context.authorize(Operation.ALTER_CONFIGS, Resource.cluster())
    hosts = {
        part.entity_name async for entry in in_turns(request.entries) for part in entry.entity if part.entity_type == IP
    }
    known = {host async for host in in_turns(hosts) if host and (is_address(host) or await is_resolved(host))}

    def decide(
        context: RequestContext, request: AlterClientQuotasRequest, cluster: Cluster
    ) -> Steps[ControllerDecision[AlterClientQuotasResponse]]:
        return alter_client_quotas.steps(cluster.image, request, is_address=known.__contains__)

    return decide


def error_response(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(error_code=error.code, error_message=error.message, entity=entry.entity)
            for entry in request.entries
        ]
    )


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def is_resolved(host: str) -> bool:
    """Names are looked up in a thread; a client may name hosts as well."""
    try:
        await asyncio.get_running_loop().run_in_executor(None, socket.getaddrinfo, host, None)
    except (OSError, UnicodeError):
        return False
    return True
