"""Requests and responses as frames, without I/O: what the blocking and the asyncio driver share."""

from __future__ import annotations

import struct

from barnabas.wire.apis import message_classes, request_header_version, response_header_version
from barnabas.wire.codec import DecodeError
from barnabas.wire.headers import RequestHeader, ResponseHeader
from barnabas.wire.schema import Buffer, Request, Response


def request_frame(request: Request, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    frame = bytearray(4)
    header.encode_into(frame, request_header_version(type(request), version))
    request.encode_into(frame, version)
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    return frame


def read_response(request: type[Request], version: int, correlation_id: int, frame: Buffer) -> Response:
    header_version = response_header_version(request, version)
    header, position = ResponseHeader.decode_from(frame, 0, header_version)
    if header.correlation_id != correlation_id:
        raise DecodeError(f"answer {header.correlation_id} came where {correlation_id} was due")
    response_class = message_classes(request.api_key)[1]
    return response_class.decode(memoryview(frame)[position:], version)
