from __future__ import annotations

import asyncio
import logging
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.broker.fetch_response import pack_answer
from barnabas.node.broker.produce_response import AppendedResponse
from barnabas.node.dispatch import (
    Answer,
    Dispatcher,
    Exchange,
    Handler,
    Route,
    Unanswerable,
)
from barnabas.node.handlers import HANDLERS, Api, Served
from barnabas.node.handlers.k08_offset_commit import Committed
from barnabas.node.log_limiter import LogLimiter
from barnabas.node.requests import InvalidRequest, ListenerKind, RawResponse, RequestContext, Session
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

BORROWED = "k18_api_versions"


class FakeNode:
    image = MetadataImage()
    controller = SimpleNamespace(versions={})  # it is the active controller itself


@pytest.fixture(autouse=True)
def more_apis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their handlers are never reached: the tests put their own in their place."""
    for api_key in (0, 3, 22, 36, 52):
        monkeypatch.setitem(HANDLERS, api_key, Api(BORROWED, Served.BROKER | Served.CONTROLLER))


def with_handler(handler: Handler) -> Dispatcher:
    def replace_handler(route: Route, handle: Handler) -> Handler:
        return handler

    return Dispatcher(FakeNode(), [replace_handler])


def session_of(dispatcher: Dispatcher, kind: ListenerKind = ListenerKind.BROKER) -> Session:
    return Session(
        listener="PLAINTEXT",
        kind=kind,
        security_protocol=0,
        client_host="10.0.0.9",
        client_port=4711,
        routes=dispatcher.routes[kind],
    )


def frame(api_key: int, version: int, body: bytes, *, client_id: bytes | None = b"me", tags: bytes = b"") -> memoryview:
    header = struct.pack(">hhih", api_key, version, 1234, -1 if client_id is None else len(client_id))
    return memoryview(bytearray(header + (client_id or b"") + tags + body))


def serve(dispatcher: Dispatcher, request: memoryview, kind: ListenerKind = ListenerKind.BROKER) -> bytes:
    answer = dispatcher.serve(session_of(dispatcher, kind), request)
    assert isinstance(answer, bytearray | list)
    return whole(answer)


def whole(answer: Answer) -> bytes:
    data = bytes(answer) if isinstance(answer, bytearray) else b"".join(bytes(part) for part in answer)  # type: ignore[arg-type]
    size, correlation_id = struct.unpack_from(">ii", data)
    assert size == len(data) - 4
    assert correlation_id == 1234
    return data[8:]


def test_the_context_says_who_asks_for_what() -> None:
    seen: list[RequestContext] = []

    async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
        seen.append(context)
        return ApiVersionsResponse()

    dispatcher = with_handler(handler)
    for client_id in (b"me", b"", None, "grün".encode(), b"\xff"):
        serve(dispatcher, frame(18, 2, b"", client_id=client_id))
    assert [context.client_id for context in seen] == ["me", "", None, "grün", "\ufffd"]
    assert seen[0].api_key == 18
    assert seen[0].api_version == 2
    assert seen[0].correlation_id == 1234
    assert seen[0].listener == "PLAINTEXT"
    assert seen[0].listener_kind is ListenerKind.BROKER
    assert seen[0].client_host == "10.0.0.9"
    assert seen[0].principal == "User:ANONYMOUS"
    assert seen[0].security_protocol == 0


def test_flexible_headers_have_tags_and_unknown_ones_are_skipped() -> None:
    async def handler(context: RequestContext, request: InitProducerIdRequest, node: Any) -> InitProducerIdResponse:
        assert request.transactional_id == "tx"
        return InitProducerIdResponse(producer_id=8)

    dispatcher = with_handler(handler)
    body = InitProducerIdRequest(transactional_id="tx").encode(4)
    for tags in (b"\x00", b"\x01\x09\x03abc", b"\x02\x00\x00\xff\x01\x01x"):
        answer = serve(dispatcher, frame(22, 4, body, tags=tags))
        assert answer[0] == 0
        assert InitProducerIdResponse.decode(answer[1:], 4).producer_id == 8


def test_a_request_without_flexible_versions_has_neither_tags_nor_a_tagged_answer() -> None:
    async def handler(context: RequestContext, request: InitProducerIdRequest, node: Any) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=8)

    answer = serve(with_handler(handler), frame(22, 1, InitProducerIdRequest().encode(1)))
    assert InitProducerIdResponse.decode(answer, 1).producer_id == 8


def test_bytes_behind_a_request_are_ignored_as_kafka_ignores_them() -> None:
    assert ApiVersionsResponse.decode(serve(Dispatcher(FakeNode()), frame(18, 0, b"rest")), 0).error_code == 0


def test_api_versions_is_answered_without_tags_in_the_header() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
        return ApiVersionsResponse(throttle_time_ms=5)

    answer = serve(with_handler(handler), frame(18, 3, ApiVersionsRequest().encode(3), tags=b"\x00"))
    assert ApiVersionsResponse.decode(answer, 3).throttle_time_ms == 5


@pytest.mark.parametrize(
    ("kind", "request_frame", "reason"),
    [
        (ListenerKind.BROKER, memoryview(b""), "not readable"),
        (ListenerKind.BROKER, memoryview(b"\x00\x12\x00\x00\x00"), "not readable"),
        (ListenerKind.BROKER, frame(1000, 0, b""), "API key 1000 is not offered"),
        (ListenerKind.BROKER, frame(-1, 0, b""), "API key -1 is not offered"),
        (ListenerKind.BROKER, frame(7, 0, b""), "API key 7 is not offered"),
        (ListenerKind.BROKER, frame(52, 0, b""), "API key 52 is not offered on the broker"),
        (ListenerKind.CONTROLLER, frame(3, 1, b""), "API key 3 is not offered on the controller"),
        (ListenerKind.BROKER, frame(3, 14, b""), "version 14 of metadata"),
        (ListenerKind.BROKER, frame(3, -1, b""), "version -1 of metadata"),
        (ListenerKind.BROKER, frame(0, 2, b""), "version 2 of produce"),
        (ListenerKind.BROKER, frame(3, 1, b"\x7f\xff\xff\xff"), "not readable"),
        (ListenerKind.BROKER, frame(3, 12, b"\xff\xff\xff\xff\x0f", tags=b"\x00"), "not readable"),
        (ListenerKind.BROKER, frame(22, 4, b"", tags=b"\xff\xff\xff\xff\x0f"), "too many"),
        (ListenerKind.BROKER, frame(22, 4, b"", tags=b"\xff\xff\xff\xff\xff\xff"), "not readable"),
        (ListenerKind.BROKER, frame(22, 4, b"", tags=b"\x01\x00\x7f"), "longer than the request"),
        (ListenerKind.BROKER, frame(22, 4, b"", tags=b"\x01"), "not readable"),
        (ListenerKind.BROKER, frame(22, 4, bytes(400), tags=b"\x80\x01"), "too many"),
        (ListenerKind.BROKER, memoryview(struct.pack(">hhih", 3, 12, 1, 500) + b"short"), "not readable"),
    ],
)
def test_what_is_no_request_here_closes_the_connection(
    kind: ListenerKind, request_frame: memoryview, reason: str
) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> None:
        raise AssertionError("not to be reached")

    dispatcher = with_handler(handler)
    with pytest.raises(InvalidRequest, match=reason):
        dispatcher.serve(session_of(dispatcher, kind), request_frame)


@pytest.mark.parametrize("error_on", ["first step", "later step"])
def test_an_error_of_the_whole_request_is_said_at_the_top(error_on: str) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> InitProducerIdResponse:
        if error_on == "later step":
            await asyncio.sleep(0)
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "It is elsewhere.")

    answer = asyncio.run(answer_of(with_handler(handler), frame(22, 1, InitProducerIdRequest().encode(1))))
    assert InitProducerIdResponse.decode(answer, 1).error_code == ErrorCode.NOT_COORDINATOR


def test_an_error_message_goes_where_there_is_a_place_for_it() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> SaslAuthenticateResponse:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "No.")

    answer = serve(with_handler(handler), frame(36, 0, SaslAuthenticateRequest().encode(0)))
    assert SaslAuthenticateResponse.decode(answer, 0).error_message == "No."


def test_a_handler_that_breaks_is_logged_with_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> InitProducerIdResponse:
        raise ZeroDivisionError("oh")

    dispatcher = with_handler(handler)
    for _ in range(3):
        answer = serve(dispatcher, frame(22, 1, InitProducerIdRequest().encode(1)))
        assert InitProducerIdResponse.decode(answer, 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (record,) = caplog.records
    assert record.exc_info
    assert "init_producer_id v1 from 10.0.0.9" in record.getMessage()


def test_an_answer_that_cannot_be_encoded_is_an_unexpected_error() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> InitProducerIdResponse:
        if context.client_id == "later":
            await asyncio.sleep(0)
        return InitProducerIdResponse(producer_id="seven")  # type: ignore[arg-type]

    dispatcher = with_handler(handler)
    for client_id in (b"now", b"later"):
        request = frame(22, 1, InitProducerIdRequest().encode(1), client_id=client_id)
        answer = asyncio.run(answer_of(dispatcher, request))
        assert InitProducerIdResponse.decode(answer, 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_without_a_place_for_the_error_there_is_no_answer() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> MetadataResponse:
        if context.client_id == "later":
            await asyncio.sleep(0)
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    dispatcher = with_handler(handler)
    for client_id in (b"now", b"later"):
        with pytest.raises(Unanswerable):
            asyncio.run(answer_of(dispatcher, frame(3, 1, MetadataRequest().encode(1), client_id=client_id)))


def test_a_module_may_say_an_error_item_by_item() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> MetadataResponse:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    def error_response(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
        return MetadataResponse(controller_id=-error.code)

    dispatcher = with_handler(handler)
    session = session_of(dispatcher)
    session.routes[3 << 16 | 1] = Route(3, 1, handler, error_response)
    answer = dispatcher.serve(session, frame(3, 1, MetadataRequest().encode(1)))
    assert isinstance(answer, bytearray)
    assert MetadataResponse.decode(whole(answer), 1).controller_id == -41


def test_a_body_already_encoded_is_sent_in_its_parts() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> RawResponse:
        return RawResponse([b"ab", memoryview(b"cd")])

    dispatcher = with_handler(handler)
    answer = dispatcher.serve(session_of(dispatcher), frame(22, 4, InitProducerIdRequest().encode(4), tags=b"\x00"))
    assert isinstance(answer, list)
    assert answer[1:] == [b"ab", b"cd"]
    assert whole(answer) == b"\x00abcd"


OFFSET_COMMIT_8 = OffsetCommitRequest(group_id="g").encode(8)


@pytest.mark.parametrize(
    ("api_key", "version", "body", "answer_class", "answer"),
    [
        (0, 9, ProduceRequest(acks=1).encode(9), ProduceResponse, AppendedResponse([])),
        (0, 8, ProduceRequest(acks=1).encode(8), ProduceResponse, AppendedResponse([])),
        (8, 8, OFFSET_COMMIT_8, OffsetCommitResponse, Committed([], [])),
        (1, 12, FetchRequest().encode(12), FetchResponse, None),
        (1, 11, FetchRequest().encode(11), FetchResponse, None),
        (3, 3, MetadataRequest().encode(3), MetadataResponse, MetadataResponse()),
        (3, 2, MetadataRequest().encode(2), MetadataResponse, MetadataResponse()),
    ],
)
def test_what_throttles_a_client_stands_in_every_answer_that_has_room_for_it(
    api_key: int, version: int, body: bytes, answer_class: Any, answer: Any
) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> Any:
        context.throttle_time_ms = 1234
        return await pack_answer(context.api_version, 7, []) if answer is None else answer

    flexible = version >= (12 if api_key == 1 else 9 if api_key == 0 else 8 if api_key == 8 else 99)
    packed = serve(with_handler(handler), frame(api_key, version, body, tags=b"\x00" if flexible else b""))
    decoded = answer_class.decode(packed[1:] if flexible else packed, version)
    assert decoded.throttle_time_ms == (0 if (api_key, version) == (3, 2) else 1234)


def test_what_the_controller_decides_is_waited_for_in_a_task_with_time_outs() -> None:
    class Controller:
        async def execute(self, context: RequestContext, request: Any) -> Any:
            async with asyncio.timeout(10):
                await asyncio.sleep(0)
            return CreateTopicsResponse(throttle_time_ms=context.api_version)

    class WithController:
        controller = Controller()

    request = frame(19, 4, CreateTopicsRequest().encode(4))
    answer = asyncio.run(answer_of(Dispatcher(WithController()), request))  # type: ignore[arg-type]
    assert CreateTopicsResponse.decode(answer, 4).throttle_time_ms == 4


def test_a_client_that_goes_away_ends_the_task_of_its_request() -> None:
    ended: list[str] = []

    class Controller:
        async def execute(self, context: RequestContext, request: Any) -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

    class WithController:
        controller = Controller()

    async def story() -> None:
        dispatcher = Dispatcher(WithController())  # type: ignore[arg-type]
        exchange = dispatcher.serve(session_of(dispatcher), frame(19, 4, CreateTopicsRequest().encode(4)))
        assert isinstance(exchange, Exchange)
        exchange.finished = lambda answer, error: None
        await asyncio.sleep(0)
        exchange.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(story())
    assert ended == ["cancelled"]


def test_wrappers_compose_with_the_last_one_outermost() -> None:
    told: list[str] = []

    def wrapper(name: str) -> Any:
        def wrap(route: Route, handle: Handler) -> Handler:
            async def around(context: RequestContext, request: Any, node: Any) -> Any:
                told.append(f"{name} {route.name}")
                return await handle(context, request, node)

            return around

        return wrap

    dispatcher = Dispatcher(FakeNode(), [wrapper("inner"), wrapper("outer")])
    serve(dispatcher, frame(18, 0, b""))
    assert told == ["outer api_versions", "inner api_versions"]
    dispatcher.wrap([])
    serve(dispatcher, frame(18, 0, b""))
    assert len(told) == 2


def test_debug_shows_requests_but_never_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> None:
        return None

    dispatcher = with_handler(handler)
    with caplog.at_level(logging.DEBUG):
        dispatcher.serve(session_of(dispatcher), frame(22, 1, InitProducerIdRequest(transactional_id="tx-1").encode(1)))
        dispatcher.serve(session_of(dispatcher), frame(36, 0, SaslAuthenticateRequest(auth_bytes=b"hunter2").encode(0)))
    assert "init_producer_id v1" in caplog.text
    assert "tx-1" in caplog.text
    assert "sasl_authenticate" in caplog.text
    assert "hunter2" not in caplog.text


def test_what_a_handler_awaits_is_driven_without_a_task() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> InitProducerIdResponse:
        loop = asyncio.get_running_loop()
        assert asyncio.current_task() is None or asyncio.current_task() is main
        first = loop.create_future()
        loop.call_soon(first.set_result, 1)
        second = loop.run_in_executor(None, lambda: 2)
        third = asyncio.create_task(give(3))
        done = loop.create_future()
        done.set_result(4)
        failing = loop.create_future()
        loop.call_soon(failing.set_exception, ValueError("five"))
        total = await first + await second + await third + await done
        with pytest.raises(ValueError, match="five"):
            await failing
        return InitProducerIdResponse(producer_id=total)

    async def give(value: int) -> int:
        await asyncio.sleep(0.001)
        return value

    main: asyncio.Task[Any] | None = None

    async def scenario() -> None:
        nonlocal main
        main = asyncio.current_task()
        answer = await answer_of(with_handler(handler), frame(22, 1, InitProducerIdRequest().encode(1)))
        assert InitProducerIdResponse.decode(answer, 1).producer_id == 10

    asyncio.run(scenario())


def test_awaiting_what_is_no_future_is_an_error_of_the_handler() -> None:
    class Odd:
        def __await__(self) -> Any:
            yield 42

    async def handler(context: RequestContext, request: Any, node: Any) -> InitProducerIdResponse:
        if context.client_id == "later":
            await asyncio.sleep(0)
        await Odd()
        return InitProducerIdResponse()

    for client_id in (b"now", b"later"):
        request = frame(22, 1, InitProducerIdRequest().encode(1), client_id=client_id)
        answer = asyncio.run(answer_of(with_handler(handler), request))
        assert InitProducerIdResponse.decode(answer, 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_cancelled_future_is_an_unexpected_error_while_the_client_is_there() -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> InitProducerIdResponse:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        await future
        return InitProducerIdResponse()

    answer = asyncio.run(answer_of(with_handler(handler), frame(22, 1, InitProducerIdRequest().encode(1))))
    assert InitProducerIdResponse.decode(answer, 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_log_limiter_forgets_rather_than_grow() -> None:
    now = 0.0
    limiter = LogLimiter(lambda: now)
    assert limiter.allows("a")
    assert not limiter.allows("a")
    now = 61.0
    assert limiter.allows("a")
    for index in range(5000):
        limiter.allows(index)
    assert len(limiter._written) <= 1000


async def answer_of(dispatcher: Dispatcher, request: memoryview) -> bytes:
    answer = dispatcher.serve(session_of(dispatcher), request)
    if isinstance(answer, Exchange):
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def finished(result: Answer | None, error: Unanswerable | None) -> None:
            if error is not None:
                done.set_exception(error)
            elif result is not None:
                done.set_result(result)

        answer.finished = finished
        answer = await asyncio.wait_for(done, 10)
    assert answer is not None
    return whole(answer)


def test_a_long_answer_of_a_handler_that_has_waited_is_written_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock finds the turn over, so every step of the answer is a turn of its own."""
    monkeypatch.setattr("barnabas.node.turns.TURN_S", -1.0)
    answers: list[Answer | None] = []

    def turns_of(topics: int) -> int:
        async def story() -> int:
            decided: asyncio.Future[CreateTopicsResponse] = asyncio.get_running_loop().create_future()

            async def handler(context: RequestContext, request: Any, node: Any) -> CreateTopicsResponse:
                return await decided

            dispatcher = with_handler(handler)
            request = frame(19, 5, CreateTopicsRequest(topics=[], timeout_ms=1).encode(5), tags=b"\x00")
            exchange = dispatcher.serve(session_of(dispatcher), request)
            assert isinstance(exchange, Exchange)
            exchange.finished = lambda answer, error: answers.append(answer)
            decided.set_result(
                CreateTopicsResponse(topics=[CreatableTopicResult(name=f"t{number}") for number in range(topics)])
            )
            turns = 0
            while not answers:
                await asyncio.sleep(0)
                turns += 1
            answer = answers.pop()
            assert answer is not None
            assert len(CreateTopicsResponse.decode(whole(answer)[1:], 5).topics) == topics
            return turns

        return asyncio.run(story())

    assert turns_of(1) == 1
    assert turns_of(1_000) > 4
