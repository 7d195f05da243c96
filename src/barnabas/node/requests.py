"""What a handler is given and may give back.

A handler module is `node/handlers/kNN_name.py` with

    async def handle(context: RequestContext, request: XRequest, node: Node) -> XResponse | RawResponse | None

`None` means that no answer is sent (Produce with acks=0). A module whose response has no error code at the top may
also have `error_response(request, error) -> XResponse`, which says an error of the whole request item by item.

The request's records are views of the connection's receive buffer. They may be written to (base offsets are set in
place) and are valid until the request has been answered, not longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Protocol

from barnabas.core.security.model import (
    ANONYMOUS,
    DENIED,
    OPERATIONS_OF,
    Operation,
    Resource,
    ResourceType,
    operations_bitfield,
)
from barnabas.wire.errors import KafkaError
from barnabas.wire.schema import Request


class ListenerKind(Enum):
    BROKER = "broker"
    CONTROLLER = "controller"


class Access(Protocol):
    """Says what a client may."""

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool: ...

    def would_allow(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool: ...

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool: ...


class ClientLogin(Protocol):
    """How far a client has come with its login."""

    @property
    def mechanisms(self) -> tuple[str, ...]: ...

    @property
    def done(self) -> bool: ...

    @property
    def has_begun(self) -> bool: ...

    @property
    def is_interrupted(self) -> bool: ...

    @property
    def has_end(self) -> bool: ...

    @property
    def session_lifetime_ms(self) -> int: ...

    def may_begin(self, mechanism: str) -> bool: ...

    async def prepare(self, message: bytes) -> None: ...

    def begin(self, mechanism: str, *, is_raw: bool) -> None: ...

    def answer(self, message: bytes) -> bytes: ...

    def refuse(self) -> None: ...

    async def until_refusal(self) -> None: ...


def no_connection(seconds: float) -> None:
    """A node's own requests are not throttled."""


class Session:
    """What is known about the other end of a connection."""

    __slots__ = (
        "access",
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "fetch_session_ids",
        "is_token_login",
        "keep_still",
        "kind",
        "listener",
        "login",
        "on_closed",
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
        access: Access | None = None,
    ) -> None:
        """`access` is None where everybody may do everything."""
        self.access = access
        self.login: ClientLogin | None = None  # on listeners where clients log in
        self.listener = listener
        self.kind = kind
        self.security_protocol = security_protocol
        self.client_host = client_host
        self.client_port = client_port
        self.principal = ANONYMOUS
        self.is_token_login = False  # the client has logged in by a delegation token
        self.client_software_name = ""
        self.client_software_version = ""
        # The fetch sessions that go with the connection, and who is to be told when it goes.
        self.fetch_session_ids: set[int] = set()
        self.on_closed: Callable[[Session], None] | None = None
        # Called with seconds for which nothing more is read from the client.
        self.keep_still: Callable[[float], None] = no_connection
        # The dispatcher's routes of this kind of listener, here because each request looks one up.
        self.routes = routes


class RequestContext:
    """Who asks for what, and until when. The inner request of an envelope has a context of its own."""

    __slots__ = (
        "api_key",
        "api_version",
        "client_host",
        "client_id",
        "correlation_id",
        "deadline",
        "principal",
        "request_bytes",
        "session",
        "throttle_time_ms",
    )

    def __init__(
        self,
        session: Session,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        request_bytes: int = 0,
    ) -> None:
        self.session = session
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_bytes = request_bytes
        self.principal = session.principal
        self.client_host = session.client_host
        # A time of the event loop after which nobody waits for the answer; None if that is not known.
        self.deadline: float | None = None
        # For how long the client is asked to keep still, because of a quota.
        self.throttle_time_ms = 0

    @property
    def listener(self) -> str:
        return self.session.listener

    @property
    def is_own(self) -> bool:
        """Whether this node asks itself."""
        return self.session is _own_session

    @property
    def listener_kind(self) -> ListenerKind:
        return self.session.kind

    @property
    def security_protocol(self) -> int:
        return self.session.security_protocol

    @property
    def may_everything(self) -> bool:
        """Spares those who ask about many resources the making of them."""
        return self.session.access is None

    def may(self, operation: Operation, resource: Resource) -> bool:
        access = self.session.access
        return access is None or access.allows(self.principal, self.client_host, operation, resource)

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is any resource of the kind on which the caller may do this."""
        access = self.session.access
        return access is None or access.allows_any(self.principal, self.client_host, operation, kind)

    def authorize(self, operation: Operation, resource: Resource) -> None:
        if not self.may(operation, resource):
            raise KafkaError(DENIED[resource.type], f"{self.principal} may not {operation.name} {resource.name}")

    def authorized_operations(self, resource: Resource) -> int:
        """The bit field of those operations on the resource that the caller may do."""
        operations: Iterable[Operation] = OPERATIONS_OF[resource.type]
        if (access := self.session.access) is not None:
            who = self.principal, self.client_host
            operations = (each for each in operations if access.would_allow(*who, each, resource))
        return operations_bitfield(operations)


_own_session = Session(
    listener="", kind=ListenerKind.CONTROLLER, security_protocol=0, client_host="", client_port=0, routes={}
)


def own_context(request: Request) -> RequestContext:
    """That of a request which this node makes in its own name, in the newest version."""
    return RequestContext(_own_session, request.api_key, request.valid_versions[1], 0, None)


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
    """A body already encoded, in parts that are written one after the other without being copied.

    `begins_with_throttle_time`: the first four bytes of the first part are the time for which the client is throttled.
    """

    __slots__ = ("begins_with_throttle_time", "parts")

    def __init__(
        self,
        parts: Sequence[bytes | bytearray | memoryview | Region],
        *,
        begins_with_throttle_time: bool = False,
    ) -> None:
        self.parts = parts
        self.begins_with_throttle_time = begins_with_throttle_time


class InvalidRequest(Exception):
    """The peer sent what is no request of this listener: its connection is closed."""
