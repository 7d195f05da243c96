"""AlterClientQuotas, versions 0 and 1: limits of users, client ids and addresses.

1 is flexible. Quotas are kept and told, not enforced yet. Deviations from Kafka: none beside that.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING

from barnabas.core.controller.quotas import IP, alter_client_quotas
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: AlterClientQuotasRequest, node: Node) -> AlterClientQuotasResponse:
    context.authorize(Operation.ALTER_CONFIGS, Resource.cluster())
    hosts = {part.entity_name for entry in request.entries for part in entry.entity if part.entity_type == IP}
    known = {host for host in hosts if host and (is_address(host) or await is_resolved(host))}
    return await node.controller.submit(
        lambda image: alter_client_quotas(image, request, is_address=known.__contains__)
    )


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
