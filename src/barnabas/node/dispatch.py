"""From a frame to an answer: header, route, handler, encoded response.

A handler is a coroutine, but most of them never wait. So it is stepped by hand: one that runs to its end is answered at
once, without a task and without another turn of the loop. One that yields a future becomes an `Exchange`, which steps
it again when the future is done, and throws `CancelledError` into it when the connection goes away, so that what it
waits for can be given up. Only the handler's own wait ends then; a future that others share is left alone.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import struct
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeAlias

from barnabas.node.handlers import HANDLERS
from barnabas.node.requests import InvalidRequest, ListenerKind, RawResponse, Region, RequestContext, Session
from barnabas.wire.apis import APIS, message_classes, request_header_version, response_header_version
from barnabas.wire.codec import compile_decoder
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.primitives import MAX_TAGGED_FIELDS, DecodeError, read_uvarint
from barnabas.wire.schema import Buffer, Request, Response
from barnabas.wire.shapes import fields_of

log = logging.getLogger("barnabas.requests")

PRODUCE = 0
API_VERSIONS = 18
# Handshakes, credentials and configurations, which may hold passwords: never shown in a log.
SECRET_APIS = frozenset({17, 33, 36, 38, 41, 44, 51})
LOG_INTERVAL_S = 60.0
LOG_KEYS_MAX = 1000

Part: TypeAlias = bytes | bytearray | memoryview | Region
Answer: TypeAlias = bytearray | list[Part]
Handler: TypeAlias = Callable[[RequestContext, Any, Any], Coroutine[Any, None, Response | RawResponse | None]]
Wrapper: TypeAlias = Callable[["Route", Handler], Handler]

_header = struct.Struct(">Iih")
_response_header = struct.Struct(">ii")
_new_context = RequestContext


class Unanswerable(Exception):
    """The handler failed and its response has no place to say so: the connection is closed."""


class LogLimiter:
    """Says whether a line of this kind has not been written lately, so that a hostile peer cannot fill the disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[object, float] = {}

    def allows(self, key: object) -> bool:
        now = self._clock()
        last = self._written.get(key)
        if last is not None and now - last < LOG_INTERVAL_S:
            return False
        if len(self._written) >= LOG_KEYS_MAX:
            self._written.clear()
        self._written[key] = now
        return True


class Route:
    """One version of one API on one kind of listener, with all that is needed to serve it."""

    __slots__ = (
        "api_key",
        "decode",
        "error_response",
        "flexible_header",
        "handle",
        "header_room",
        "name",
        "requests",
        "response",
        "version",
    )

    def __init__(self, api_key: int, version: int, handle: Handler, error_response: Any = None) -> None:
        request, response = message_classes(api_key)
        self.api_key = api_key
        self.version = version
        self.name = APIS[api_key].name
        self.flexible_header = request_header_version(request, version) >= 2
        self.header_room = bytes(9 if response_header_version(request, version) else 8)
        self.decode: Callable[[Buffer, int, int], tuple[Any, int]] = compile_decoder(request, version)
        self.response = response
        self.handle = handle
        self.error_response: Callable[[Request, KafkaError], Response] | None = error_response
        self.requests = 0

    def encode(self, response: Response | RawResponse, correlation_id: int) -> Answer:
        out = bytearray(self.header_room)
        if type(response) is RawResponse:
            size = len(out) - 4
            for part in response.parts:
                size += len(part)
            _response_header.pack_into(out, 0, size, correlation_id)
            return [out, *response.parts]
        response.encode_into(out, self.version)  # type: ignore[union-attr]
        _response_header.pack_into(out, 0, len(out) - 4, correlation_id)
        return out

    def refusal(self, request: Request, error: KafkaError) -> Response | None:
        """The answer that says an error of the whole request, if this API has one."""
        if self.error_response is not None:
            return self.error_response(request, error)
        fields = {item.name for item in fields_of(self.response) if item.in_version(self.version)}
        if "error_code" not in fields:
            return None
        said: dict[str, Any] = {"error_code": error.code.value}
        if "error_message" in fields and error.message:
            said["error_message"] = error.message
        return self.response(**said)


class Dispatcher:
    def __init__(self, node: Any, wrappers: Sequence[Wrapper] = ()) -> None:
        """`wrappers` compose around every handler, the last one outermost: quotas, throttling, metrics."""
        self._node = node
        self._wrappers = tuple(wrappers)
        self._limiter = LogLimiter()
        self.routes: dict[ListenerKind, dict[int, Route]] = {kind: {} for kind in ListenerKind}

    def serve(self, session: Session, frame: memoryview) -> Answer | Exchange | None:
        """The answer to one request, or what will bring it, or None where none is wanted."""
        try:
            route_id, correlation_id, client_id_length = _header.unpack_from(frame, 0)
            route = session.routes.get(route_id) or self._find_route(session, route_id)
            position = 10
            client_id = None
            if client_id_length >= 0:
                position += client_id_length
                client_id = str(frame[10:position], "utf-8", "replace")
            if route.flexible_header:
                position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
            # Bytes left over are not looked at, as Kafka does it.
            request, _ = route.decode(frame, position, len(frame))
        except InvalidRequest:
            raise
        except Exception as error:
            raise InvalidRequest(f"it is not readable: {error}") from error
        route.requests += 1
        context = _new_context(session, route.api_key, route.version, correlation_id, client_id)
        if log.isEnabledFor(logging.DEBUG):
            log_request(route, context, request)
        coroutine = route.handle(context, request, self._node)
        try:
            awaited = coroutine.send(None)
        except StopIteration as finished:
            response = finished.value
            if response is None:
                return None
            try:
                return route.encode(response, correlation_id)
            except Exception as error:
                return self.refuse(route, context, request, error)
        except (Exception, asyncio.CancelledError) as error:
            return self.refuse(route, context, request, error)
        return Exchange(self, route, context, request, coroutine, awaited)

    def refuse(self, route: Route, context: RequestContext, request: Request, error: BaseException) -> Answer:
        """The answer that says the error; raises `Unanswerable` where the API cannot say it."""
        if isinstance(error, KafkaError):
            told = error
        else:
            told = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server met an unexpected error.")
            if self._limiter.allows((route.api_key, type(error))):
                log.error("%s v%d from %s failed", route.name, route.version, context.client_host, exc_info=error)
        response = route.refusal(request, told)
        if response is None:
            raise Unanswerable(f"{route.name} v{route.version} cannot say {told}")
        return route.encode(response, context.correlation_id)

    def _find_route(self, session: Session, route_id: int) -> Route:
        api_key, version = struct.unpack(">hh", struct.pack(">I", route_id))
        offered = offered_versions(api_key, session.kind)
        if offered is None:
            raise InvalidRequest(f"API key {api_key} is not offered on the {session.kind.value} listener")
        lowest, highest = message_classes(api_key)[0].valid_versions
        if max(offered[0], lowest) <= version <= min(offered[1], highest):
            route = session.routes[route_id] = self._make_route(api_key, version)
            return route
        if api_key == API_VERSIONS:
            return self._unknown_api_versions(version)
        raise InvalidRequest(f"version {version} of {APIS[api_key].name} is not offered")

    def _make_route(self, api_key: int, version: int) -> Route:
        module = importlib.import_module(f"barnabas.node.handlers.{HANDLERS[api_key]}")
        route = Route(api_key, version, module.handle, getattr(module, "error_response", None))
        for wrapper in self._wrappers:
            route.handle = wrapper(route, route.handle)
        return route

    def _unknown_api_versions(self, version: int) -> Route:
        """Answered as version 0, its body unread, so that a newer client learns which version to use."""
        module = importlib.import_module(f"barnabas.node.handlers.{HANDLERS[API_VERSIONS]}")
        route = Route(API_VERSIONS, 0, module.handle_unknown_version)
        route.flexible_header = version >= message_classes(API_VERSIONS)[0].flexible_since
        route.decode = lambda frame, position, end: (None, end)
        return route

    def requests_by_api(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for routes in self.routes.values():
            for route in routes.values():
                counts[route.api_key] = counts.get(route.api_key, 0) + route.requests
        return counts


class Exchange:
    """A request whose handler waits for a future."""

    __slots__ = ("_awaited", "_context", "_coroutine", "_dispatcher", "_request", "_route", "finished")

    def __init__(
        self,
        dispatcher: Dispatcher,
        route: Route,
        context: RequestContext,
        request: Request,
        coroutine: Coroutine[Any, None, Any],
        awaited: Any,
    ) -> None:
        self._dispatcher = dispatcher
        self._route = route
        self._context = context
        self._request = request
        self._coroutine = coroutine
        self._awaited: Any = None
        # Called with the answer, or with None and the reason why there is none and the connection has to close.
        self.finished: Callable[[Answer | None, Unanswerable | None], None] | None = None
        self._wait_for(awaited)

    @property
    def outlives_client(self) -> bool:
        """A client that wants no acks has sent its records and gone: they are appended all the same."""
        return self._route.api_key == PRODUCE

    def cancel(self) -> None:
        """Nobody reads the answer any more. The handler may still await what it needs to clean up."""
        self.finished = None
        if asyncio.isfuture(self._awaited):
            self._awaited.remove_done_callback(self._resume)
        self._step(asyncio.CancelledError())

    def _wait_for(self, awaited: Any) -> None:
        self._awaited = awaited
        if awaited is None:
            asyncio.get_running_loop().call_soon(self._resume, None)
        elif asyncio.isfuture(awaited):
            awaited._asyncio_future_blocking = False
            awaited.add_done_callback(self._resume)
        else:
            error = RuntimeError(f"a handler awaited {awaited!r}, which is no future")
            asyncio.get_running_loop().call_soon(self._step, error)

    def _resume(self, awaited: Any) -> None:
        if awaited is self._awaited:
            self._step(None)

    def _step(self, error: BaseException | None) -> None:
        self._awaited = self
        try:
            awaited = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        except StopIteration as finished:
            self._succeed(finished.value)
        except (Exception, asyncio.CancelledError) as failure:
            self._fail(failure)
        else:
            self._wait_for(awaited)

    def _succeed(self, response: Response | RawResponse | None) -> None:
        if self.finished is None:
            return
        try:
            answer = None if response is None else self._route.encode(response, self._context.correlation_id)
        except Exception as error:
            self._fail(error)
            return
        self.finished(answer, None)

    def _fail(self, failure: BaseException) -> None:
        if self.finished is None:
            if not isinstance(failure, asyncio.CancelledError):
                log.error("%s failed after its client had gone", self._route.name, exc_info=failure)
            return
        try:
            answer = self._dispatcher.refuse(self._route, self._context, self._request, failure)
        except Unanswerable as error:
            self.finished(None, error)
            return
        self.finished(answer, None)


def skip_tagged_fields(frame: memoryview, position: int) -> int:
    """Newer clients send tags that are unknown here."""
    count, position = read_uvarint(frame, position)
    if count > MAX_TAGGED_FIELDS:
        raise DecodeError(f"{count} tagged fields in a header are too many")
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise DecodeError("a tagged field is longer than the request")
    return position


def offered_versions(api_key: int, kind: ListenerKind) -> tuple[int, int] | None:
    """The range of the reference for an API that exists here and belongs on this kind of listener."""
    if api_key not in HANDLERS:
        return None
    api = APIS[api_key]
    return api.broker if kind is ListenerKind.BROKER else api.controller


def offered_apis(kind: ListenerKind) -> Iterable[tuple[int, int, int]]:
    """Key, lowest and highest version of all that is offered, by key."""
    for api_key in sorted(HANDLERS):
        versions = offered_versions(api_key, kind)
        if versions is not None:
            yield api_key, *versions


def log_request(route: Route, context: RequestContext, request: Any) -> None:
    body = "(not shown)" if route.api_key in SECRET_APIS else repr(request)
    log.debug(
        "%s v%d correlation %d client %r from %s on %s: %s",
        route.name,
        route.version,
        context.correlation_id,
        context.client_id,
        context.client_host,
        context.listener,
        body,
    )
