"""Envelope, version 0: a request that a broker forwards in the name of its client.

It is decided as if the client had asked itself: with its principal and its address. A request that cannot be read is
UNSUPPORTED_VERSION, one that is never forwarded INVALID_REQUEST, a principal that cannot be read
PRINCIPAL_DESERIALIZATION_FAILURE. A node that does not lead answers NOT_CONTROLLER, and the broker asks the next one.
Deviations from Kafka: none.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.dispatch import Route, forward
from barnabas.node.handlers import HANDLERS, Served, handler_module
from barnabas.node.net.settings import host_address
from barnabas.node.requests import RequestContext
from barnabas.wire.apis import message_classes, request_header_version, response_header_version
from barnabas.wire.codec import DecodeError
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.headers import RequestHeader, ResponseHeader
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.records.principal import DefaultPrincipalData
from barnabas.wire.schema import Request, Response

if TYPE_CHECKING:
    from barnabas.node.ports import Forwarding

PRINCIPAL_VERSION = 0
_api = struct.Struct(">hh")


async def handle(context: RequestContext, request: EnvelopeRequest, node: Forwarding) -> EnvelopeResponse:
    context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    try:
        route, inner_context, inner = _open(context, request)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    try:
        answer: Response | None = await node.controller.execute(inner_context, inner)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=error.code)
        answer = route.refusal(inner, error)
    if answer is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    header = ResponseHeader(correlation_id=inner_context.correlation_id)
    header_version = response_header_version(type(inner), inner_context.api_version)
    return EnvelopeResponse(response_data=bytes(header.encode(header_version) + answer.encode(route.version)))


def _open(context: RequestContext, request: EnvelopeRequest) -> tuple[Route, RequestContext, Request]:
    try:
        api_key, version = _api.unpack_from(request.request_data)
    except struct.error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION) from None
    if api_key not in HANDLERS or not HANDLERS[api_key].served & Served.FORWARDED:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"API key {api_key} is never forwarded.")
    inner_class = message_classes(api_key)[0]
    try:
        data = memoryview(request.request_data)
        header, position = RequestHeader.decode_from(data, 0, request_header_version(inner_class, version))
        inner = inner_class.decode(data[position:], version)
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
    opened = RequestContext(context.session, api_key, version, header.correlation_id, header.client_id)
    opened.principal = _principal(request.request_principal)
    try:
        opened.client_host = host_address(str(ipaddress.ip_address(bytes(request.client_host_address))))
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The client's address is none.") from None
    return _route(api_key, version), opened, inner


def _principal(data: bytes | None) -> str:
    try:
        (version,) = struct.unpack_from(">h", data or b"")
        if version != PRINCIPAL_VERSION:
            raise DecodeError(f"version {version} of a principal is unknown")
        found = DefaultPrincipalData.decode((data or b"")[2:], version)
    except (struct.error, DecodeError) as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return f"{found.type}:{found.name}"


@lru_cache(maxsize=128)
def _route(api_key: int, version: int) -> Route:
    return Route(api_key, version, forward, getattr(handler_module(api_key), "error_response", None))
