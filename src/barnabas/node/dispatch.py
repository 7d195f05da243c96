"""From a frame to an answer: header, route, handler, encoded response.

A handler is a coroutine, but most of them never wait. So it is stepped by hand: one that runs to its end is answered at
once, without a task and without another turn of the loop. One that yields a future becomes an `Exchange`, which steps
it again when the future is done, and throws `CancelledError` into it when the connection goes away, so that what it
waits for can be given up. Only the handler's own wait ends then; a future that others share is left alone.

A request with many elements, and a handler that has given up its turn (`turns.py`), stand in the lane of long requests:
they are read, handled and their answers encoded in turns.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from barnabas.node.handlers import HANDLERS, Served, handler_module
from barnabas.node.log_limiter import LogLimiter
from barnabas.node.ports import BrokerPorts, Forwarding
from barnabas.node.requests import InvalidRequest, ListenerKind, RawResponse, Region, RequestContext, Session
from barnabas.node.turns import Lane, step_in_turns
from barnabas.node.wakeups import Wakeup, Wakeups
from barnabas.wire.apis import APIS, message_classes, request_header_version, response_header_version
from barnabas.wire.codec import (
    TooManyElements,
    compile_decoder,
    compile_stepwise_decoder,
    compile_stepwise_encoder,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.primitives import MAX_REQUEST_ELEMENTS, MAX_TAGGED_FIELDS, DecodeError, read_uvarint
from barnabas.wire.schema import Buffer, Request, Response
from barnabas.wire.shapes import fields_of

log = logging.getLogger("barnabas.requests")

PRODUCE = 0
API_VERSIONS = 18
# Handshakes, credentials, configurations and envelopes around them, which may hold passwords: never shown in a log.
SECRET_APIS = frozenset({17, 33, 36, 38, 39, 40, 41, 44, 51, 58})
# A request of more elements is read in turns.
ELEMENTS_AT_ONCE = 2_000
# An answer with a list of more items is written in turns.
ITEMS_AT_ONCE = 50
# What a whole decision may be about, in APIs whose handlers cannot give up their turn in the middle of it.
ELEMENTS_OF_API = {
    11: 1_000,  # JoinGroup: the protocols of a member
    13: 5_000,  # LeaveGroup: members
    14: 5_000,  # SyncGroup: members
    48: 1_000,  # DescribeClientQuotas: components
    55: 1_000,  # DescribeQuorum: topics and partitions, of which there is one
    57: 1_000,  # UpdateFeatures
    68: 25_000,  # ConsumerGroupHeartbeat: topics that a member subscribes to, and partitions that it owns
    76: 25_000,  # ShareGroupHeartbeat
    80: 1_000,  # AddRaftVoter: listeners
    81: 1_000,
    82: 1_000,
    88: 10_000,  # StreamsGroupHeartbeat: subtopologies and their topics, and tasks that a member owns
}
# The most an answer may have, Fetch aside, whose bounds are its own.
MAX_ANSWER_BYTES = 100 << 20
# The error of a whole request is said item by item where there are so many at most; else the connection is closed.
REFUSED_STEPS = 100

Part: TypeAlias = bytes | bytearray | memoryview | Region
Answer: TypeAlias = bytearray | list[Part]
Handler: TypeAlias = Callable[[RequestContext, Any, Any], Coroutine[Any, None, Response | RawResponse | None]]
Wrapper: TypeAlias = Callable[["Route", Handler], Handler]
Finished: TypeAlias = Callable[[Answer | None, "Unanswerable | InvalidRequest | None"], None]

_header = struct.Struct(">Iih")
_response_header = struct.Struct(">ii")
_new_context = RequestContext
_NOTHING = object()


class Unanswerable(Exception):
    """The handler failed and its response has no place to say so: the connection is closed."""


class Route:
    """One version of one API on one kind of listener, with all that is needed to serve it."""

    __slots__ = (
        "_stepwise_decode",
        "_stepwise_encode",
        "api_key",
        "decode",
        "error_response",
        "flexible_header",
        "handle",
        "header_room",
        "max_elements",
        "name",
        "node",
        "response",
        "version",
    )

    def __init__(
        self,
        api_key: int,
        version: int,
        handle: Handler,
        error_response: Any = None,
        max_elements: int = MAX_REQUEST_ELEMENTS,
    ) -> None:
        request, response = message_classes(api_key)
        self.api_key = api_key
        self.max_elements = min(max_elements, ELEMENTS_OF_API.get(api_key, max_elements))
        self.version = version
        self.name = APIS[api_key].name
        self.flexible_header = request_header_version(request, version) >= 2
        self.header_room = bytes(9 if response_header_version(request, version) else 8)
        self.decode: Callable[[Buffer, int, int], tuple[Any, int]] = compile_decoder(
            request, version, min(self.max_elements, ELEMENTS_AT_ONCE)
        )
        self._stepwise_decode: Callable[[Buffer, int, int], Generator[None, None, tuple[Any, int]]] | None = None
        self._stepwise_encode: Callable[[Any, bytearray], Generator[None, None, None]] | None = None
        self.response = response
        self.handle = handle
        self.error_response: Callable[[Request, KafkaError], Response] | None = error_response
        # What the handler sees, if that is not what the dispatcher has for all.
        self.node: Forwarding | None = None

    def encode(self, response: Response | RawResponse, context: RequestContext) -> Answer:
        correlation_id = context.correlation_id
        if context.throttle_time_ms:
            throttle(response, context.throttle_time_ms)
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

    def decode_in_steps(self, frame: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
        if self._stepwise_decode is None:
            request = message_classes(self.api_key)[0]
            self._stepwise_decode = compile_stepwise_decoder(request, self.version, self.max_elements)
        return self._stepwise_decode(frame, position, len(frame))

    def encode_in_steps(
        self, response: Response, context: RequestContext, max_bytes: int
    ) -> Generator[None, None, Answer]:
        if type(response) is not self.response:
            # It packs itself, quickly.
            return self.encode(response, context)
        if context.throttle_time_ms:
            throttle(response, context.throttle_time_ms)
        if self._stepwise_encode is None:
            self._stepwise_encode = compile_stepwise_encoder(self.response, self.version)
        out = bytearray(self.header_room)
        for _ in self._stepwise_encode(response, out):
            require_room(out, max_bytes)
            yield
        require_room(out, max_bytes)
        _response_header.pack_into(out, 0, len(out) - 4, context.correlation_id)
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


def throttle(response: Response | RawResponse, throttle_time_ms: int) -> None:
    """Has the answer ask the client to keep still, where its version can say so."""
    if not isinstance(response, RawResponse):
        response.throttle_time_ms = throttle_time_ms  # type: ignore[attr-defined]
    elif response.begins_with_throttle_time:
        first, *others = response.parts
        assert isinstance(first, (bytes, bytearray))
        response.parts = [struct.pack(">i", throttle_time_ms) + first[4:], *others]


def require_room(out: bytearray, max_bytes: int) -> None:
    if len(out) > max_bytes:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The answer would have more than {max_bytes} bytes.")


class Dispatcher:
    def __init__(
        self,
        node: BrokerPorts | None = None,
        wrappers: Sequence[Wrapper] = (),
        *,
        max_request_elements: int = MAX_REQUEST_ELEMENTS,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        """`node` is what handlers see; it may be set later, before anybody is served. `controller` is what they see
        on the listeners of controllers, where it is set.

        `wrappers` compose around every handler, the last one outermost: quotas, throttling, metrics.
        """
        self.node = node
        self.controller: Forwarding | None = None
        self.lane = Lane()
        self.wakeups = Wakeups()
        self.max_answer_bytes = max_answer_bytes
        self.max_request_elements = max_request_elements
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
        except TooManyElements:
            context = _new_context(session, route.api_key, route.version, correlation_id, client_id, len(frame))
            return Exchange.of_many_elements(self, route, context, frame, position)
        except Exception as error:
            raise InvalidRequest(f"it is not readable: {error}") from error
        context = _new_context(session, route.api_key, route.version, correlation_id, client_id, len(frame))
        if log.isEnabledFor(logging.DEBUG):
            log_request(route, context, request)
        coroutine = route.handle(context, request, self.node if route.node is None else route.node)
        try:
            awaited = coroutine.send(None)
        except StopIteration as finished:
            response = finished.value
            if response is None:
                return None
            try:
                return route.encode(response, context)
            except Exception as error:
                return self.refuse(route, context, request, error)
        except (Exception, asyncio.CancelledError) as error:
            return self.refuse(route, context, request, error)
        exchange = Exchange(self, route, context, request, coroutine)
        exchange.wait_for(awaited)
        return exchange

    def wait_for(self, session: Session, api_key: int, coroutine: Coroutine[Any, None, Any]) -> Exchange:
        """What is to be awaited for a frame without a header, as if version 0 of the API had asked for it."""
        route = session.routes.get(api_key << 16) or self._find_route(session, api_key << 16)
        exchange = Exchange(self, route, _new_context(session, api_key, 0, 0, None), None, coroutine)
        exchange.begin()
        return exchange

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
        return route.encode(response, context)

    def wrap(self, wrappers: Sequence[Wrapper]) -> None:
        """From now on these stand around handlers, the last one outermost."""
        self._wrappers = tuple(wrappers)
        for routes in self.routes.values():
            routes.clear()

    def _find_route(self, session: Session, route_id: int) -> Route:
        api_key, version = struct.unpack(">hh", struct.pack(">I", route_id))
        offered = offered_versions(api_key, session.kind)
        if offered is None:
            raise InvalidRequest(f"API key {api_key} is not offered on the {session.kind.value} listener")
        lowest, highest = message_classes(api_key)[0].valid_versions
        if max(offered[0], lowest) <= version <= min(offered[1], highest):
            route = session.routes[route_id] = self._make_route(api_key, version)
            if session.kind is ListenerKind.CONTROLLER:
                route.node = self.controller
            return route
        if api_key == API_VERSIONS:
            return self._unknown_api_versions(version)
        raise InvalidRequest(f"version {version} of {APIS[api_key].name} is not offered")

    def _make_route(self, api_key: int, version: int) -> Route:
        module = handler_module(api_key)
        handle = getattr(module, "handle", forward)
        refuse = getattr(module, "error_response", None)
        route = Route(api_key, version, handle, refuse, self.max_request_elements)
        if HANDLERS[api_key].served & IN_TASKS:
            route.handle = in_task(handle)
        for wrapper in self._wrappers:
            route.handle = wrapper(route, route.handle)
        return route

    def _unknown_api_versions(self, version: int) -> Route:
        """Answered as version 0, its body unread, so that a newer client learns which version to use."""
        route = Route(API_VERSIONS, 0, handler_module(API_VERSIONS).handle_unknown_version)
        route.flexible_header = version >= message_classes(API_VERSIONS)[0].flexible_since
        route.decode = lambda frame, position, end: (None, end)
        return route


class Exchange:
    """A request whose handler waits for a future, or for its next turn."""

    __slots__ = (
        "_awaited",
        "_context",
        "_coroutine",
        "_dispatcher",
        "_request",
        "_route",
        "_steps_read",
        "_took_turns",
        "finished",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        route: Route,
        context: RequestContext,
        request: Request | None,
        coroutine: Coroutine[Any, None, Any] | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._route = route
        self._context = context
        self._request = request
        self._coroutine = coroutine
        self._awaited: Any = None
        self._took_turns = False
        self._steps_read = 0
        # Called with the answer, or with None and the reason why there is none and the connection has to close.
        self.finished: Finished | None = None

    @classmethod
    def of_many_elements(
        cls, dispatcher: Dispatcher, route: Route, context: RequestContext, frame: memoryview, position: int
    ) -> Exchange:
        """Not even its reading begins before it is its turn."""
        exchange = cls(dispatcher, route, context, None, None)
        exchange._coroutine = exchange._read_and_handle(frame, position)
        exchange.wait_for(None)
        return exchange

    @property
    def outlives_client(self) -> bool:
        """A client that wants no acks has sent its records and gone: they are appended all the same. What it has
        ordered from the controller is done too."""
        api_key = self._route.api_key
        return api_key == PRODUCE or Served.FORWARDED in HANDLERS[api_key].served

    def cancel(self) -> None:
        """Nobody reads the answer any more. The handler may still await what it needs to clean up."""
        self.finished = None
        if asyncio.isfuture(self._awaited):
            self._awaited.remove_done_callback(self._resume)
        self._step(asyncio.CancelledError())

    def begin(self) -> None:
        """Runs the handler until it waits, which it has to do before its end."""
        self._step(None)

    async def _read_and_handle(self, frame: memoryview, position: int) -> Any:
        try:
            self._request, _ = await step_in_turns(self._counted(self._route.decode_in_steps(frame, position)))
        except Exception as error:
            raise InvalidRequest(f"it is not readable: {error}") from error
        node = self._dispatcher.node if self._route.node is None else self._route.node
        return await self._route.handle(self._context, self._request, node)

    def _counted(self, steps: Generator[None, None, tuple[Any, int]]) -> Generator[None, None, tuple[Any, int]]:
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                read: tuple[Any, int] = finished.value
                return read
            self._steps_read += 1
            yield

    def wait_for(self, awaited: Any) -> None:
        if awaited is None:
            self._took_turns = True
            self._awaited = turn = object()
            self._dispatcher.lane.add(partial(self._resume, turn))
            return
        self._awaited = awaited
        if asyncio.isfuture(awaited):
            awaited._asyncio_future_blocking = False
            if isinstance(awaited, Wakeup):
                awaited.on_wake = partial(self._dispatcher.wakeups.add, partial(self._resume, awaited))
            else:
                awaited.add_done_callback(self._resume)
        else:
            error = RuntimeError(f"a handler awaited {awaited!r}, which is no future")
            asyncio.get_running_loop().call_soon(self._step, error)

    def _resume(self, awaited: Any) -> None:
        if awaited is self._awaited:
            self._step(None)

    def _step(self, error: BaseException | None) -> None:
        self._awaited = _NOTHING
        assert self._coroutine is not None
        try:
            awaited = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        except StopIteration as finished:
            self._succeed(finished.value)
        except (Exception, asyncio.CancelledError) as failure:
            self._fail(failure)
        else:
            self.wait_for(awaited)

    def _succeed(self, response: Response | RawResponse | Encoded | None) -> None:
        if self.finished is None:
            return
        if isinstance(response, Encoded):
            self.finished(response.answer, None)
            return
        if isinstance(response, Response) and (self._took_turns or says_much(response)):
            self._coroutine = self._encode(response)
            self._step(None)
            return
        try:
            answer = None if response is None else self._route.encode(response, self._context)
        except Exception as error:
            self._fail(error)
            return
        self.finished(answer, None)

    async def _encode(self, response: Response) -> Encoded:
        """As what has taken long to find may take long to say."""
        max_bytes = self._dispatcher.max_answer_bytes
        steps = self._route.encode_in_steps(response, self._context, max_bytes)
        return Encoded(await step_in_turns(steps))

    def _fail(self, failure: BaseException) -> None:
        if self.finished is None:
            if not isinstance(failure, asyncio.CancelledError):
                log.error("%s failed after its client had disconnected", self._route.name, exc_info=failure)
            return
        if isinstance(failure, InvalidRequest):
            self.finished(None, failure)
            return
        if self._request is None or self._steps_read > REFUSED_STEPS:
            self.finished(None, Unanswerable(f"{self._route.name} of very many elements failed: {failure}"))
            return
        try:
            answer = self._dispatcher.refuse(self._route, self._context, self._request, failure)
        except Unanswerable as error:
            self.finished(None, error)
            return
        self.finished(answer, None)


class Encoded(NamedTuple):
    """An answer that is ready to be sent."""

    answer: Answer


def says_much(response: Response) -> bool:
    """Whether the answer is a long list: one of the controller's, whose decision took no turns."""
    return any(
        isinstance(value := getattr(response, item.name, None), list) and len(value) > ITEMS_AT_ONCE
        for item in fields_of(type(response))
    )


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


async def forward(context: RequestContext, request: Request, node: Forwarding) -> Response:
    """The handler of what the active controller decides."""
    response: Response = await node.controller.execute(context, request)
    return response


def in_task(handle: Handler) -> Handler:
    """A handler that asks a peer has a task of its own, and may use time-outs."""

    async def handled(context: RequestContext, request: Any, node: Any) -> Response | RawResponse | None:
        task = asyncio.get_running_loop().create_task(handle(context, request, node))
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            raise

    return handled


IN_TASKS = Served.FORWARDED | Served.ACTIVE
LISTENERS = {
    ListenerKind.BROKER: Served.BROKER | Served.FORWARDED,
    ListenerKind.CONTROLLER: Served.CONTROLLER | Served.FORWARDED | Served.ACTIVE,
}


def offered_versions(api_key: int, kind: ListenerKind) -> tuple[int, int] | None:
    """The range of the reference for an API that exists here and is served on this kind of listener."""
    if api_key not in HANDLERS or not HANDLERS[api_key].served & LISTENERS[kind]:
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
