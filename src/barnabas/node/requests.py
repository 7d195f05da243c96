"""What a handler is given and may give back.

A handler module is `node/handlers/kNN_name.py` with

    async def handle(context: RequestContext, request: XRequest, node: Node) -> XResponse | RawResponse | None

`None` means that no answer is sent (Produce with acks=0). A module whose response has no error code at the top may
also have `error_response(request, error) -> XResponse`, which says an error of the whole request item by item.

The request's records are views of the connection's receive buffer. They may be written to (base offsets are set in
place) and are valid until the request has been answered, not longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from barnabas.core.security.model import ANONYMOUS, DENIED, OPERATIONS_OF, Operation, Resource, operations_bitfield
from barnabas.wire.errors import KafkaError


class ListenerKind(Enum):
    BROKER = "broker"
    CONTROLLER = "controller"


class Session:
    """What is known about the other end of a connection."""

    __slots__ = (
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "kind",
        "listener",
        "principal",
        "routes",
        "security_protocol",
    )

    def __init__(
        self,
        *,
        listener: str,
        kind: ListenerKind,
        security_protocol: int,
        client_host: str,
        client_port: int,
        routes: dict[int, Any],
    ) -> None:
        self.listener = listener
        self.kind = kind
        self.security_protocol = security_protocol
        self.client_host = client_host
        self.client_port = client_port
        self.principal = ANONYMOUS
        self.client_software_name = ""
        self.client_software_version = ""
        # The dispatcher's routes of this kind of listener, here because each request looks one up.
        self.routes = routes


class RequestContext:
    __slots__ = ("api_key", "api_version", "client_id", "correlation_id", "session")

    def __init__(
        self, session: Session, api_key: int, api_version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.session = session
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def principal(self) -> str:
        return self.session.principal

    @property
    def listener(self) -> str:
        return self.session.listener

    @property
    def listener_kind(self) -> ListenerKind:
        return self.session.kind

    @property
    def security_protocol(self) -> int:
        return self.session.security_protocol

    @property
    def client_host(self) -> str:
        return self.session.client_host

    def may(self, operation: Operation, resource: Resource) -> bool:
        return True

    def authorize(self, operation: Operation, resource: Resource) -> None:
        if not self.may(operation, resource):
            raise KafkaError(DENIED[resource.type], f"{self.principal} may not {operation.name} {resource.name}")

    def authorized_operations(self, resource: Resource) -> int:
        """The bit field of those operations on the resource that the caller may do."""
        return operations_bitfield(each for each in OPERATIONS_OF[resource.type] if self.may(each, resource))


class Region(Protocol):
    """Bytes that are read when the socket has room for them, such as a range of a segment file.

    It keeps its file open by itself: it may be read after the handler has returned, and is dropped unread if the
    connection goes away.
    """

    def __len__(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Exactly `size` bytes, beginning `offset` bytes into the region."""
        ...


class RawResponse:
    """A body already encoded, in parts that are written one after the other without being copied."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[bytes | bytearray | memoryview | Region]) -> None:
        self.parts = parts


class InvalidRequest(Exception):
    """The peer sent what is no request of this listener: its connection is closed."""
