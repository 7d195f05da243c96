"""Passes a change on to the primary, and its answer back."""

from __future__ import annotations

import http.client
import ssl
from typing import NamedTuple

from barnabas.services.registry.election import Identity
from barnabas.services.registry.errors import RegistryError, forwarding_failed, unknown_primary

FORWARDED = "X-Forward"  # as Confluent's registry marks what it passes on
OFFSET = "x-barnabas-offset"  # where in the log the change is
UNKNOWN_PRIMARY = b'"error_code":50004'
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0


class ForwardedAnswer(Exception):
    """What the primary answered, to be answered as it is."""

    def __init__(self, status: int, body: bytes, content_type: str) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.content_type = content_type


class NotPrimary(Exception):
    """The instance that was asked cannot write: nothing was done."""

    def __init__(self, answer: RegistryError) -> None:
        super().__init__(answer.message)
        self.answer = answer


class Passed(NamedTuple):
    answer: ForwardedAnswer
    offset: int | None  # None where the primary is not one of ours


def forward(
    primary: Identity,
    method: str,
    target: str,
    body: bytes,
    content_type: str,
    what: str,
    *,
    authorization: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> Passed:
    """Blocking. Raises NotPrimary if nothing was done. `authorization` is what the caller has shown of itself."""
    connection: http.client.HTTPConnection
    if tls is None:
        connection = http.client.HTTPConnection(primary.host, primary.port, timeout=CONNECT_TIMEOUT_S)
    else:
        connection = http.client.HTTPSConnection(primary.host, primary.port, timeout=CONNECT_TIMEOUT_S, context=tls)
    headers = {FORWARDED: "true", "Accept": content_type}
    if authorization is not None:
        headers["Authorization"] = authorization
    if body:
        headers["Content-Type"] = content_type
    failed = f"Error while forwarding {what} request to the leader {primary.url}"
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NotPrimary(forwarding_failed(f"{failed}: {error}")) from None
        connection.sock.settimeout(READ_TIMEOUT_S)
        connection.request(method, target, body or None, headers)
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise forwarding_failed(f"{failed}: {error}") from None
    finally:
        connection.close()
    if response.status == 500 and UNKNOWN_PRIMARY in data:
        raise NotPrimary(unknown_primary())
    answer = ForwardedAnswer(response.status, data, response.headers.get("Content-Type") or content_type)
    offset = response.headers.get(OFFSET, "")
    return Passed(answer, int(offset) if offset.isdecimal() else None)
