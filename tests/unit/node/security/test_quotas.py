"""Quotas around handlers, with a clock of the test's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.dispatch import Route
from barnabas.node.requests import ListenerKind, RawResponse, RequestContext, Session
from barnabas.node.security.quotas import Quotas, QuotaWindows
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse

ANNA = (("user", "anna"),)


class Stage:
    def __init__(self, **limits: float) -> None:
        self.now_s = 0.0
        self.still_s: list[float] = []
        self.quotas = Quotas(QuotaWindows(), lambda: self.now_s)
        self.quotas.load({ANNA: limits})

    def ask(
        self,
        api_key: int,
        version: int,
        request: Any,
        answer: Any,
        *,
        size: int = 0,
        kind: ListenerKind = ListenerKind.BROKER,
        node: Any = None,
    ) -> tuple[Any, RequestContext]:
        session = Session(
            listener="A", kind=kind, security_protocol=0, client_host="10.0.0.1", client_port=1, routes={}
        )
        session.principal = "User:anna"
        session.keep_still = self.still_s.append
        context = RequestContext(session, api_key, version, 1, "app", size)

        async def handle(context: RequestContext, request: Any, node: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer(request) if callable(answer) else answer

        metered = self.quotas.wrap(Route(api_key, version, handle), handle)
        return asyncio.run(metered(context, request, node)), context


def test_bytes_produced_are_those_of_the_request() -> None:
    stage = Stage(producer_byte_rate=100)
    _, context = stage.ask(0, 9, ProduceRequest(), ProduceResponse(), size=1000)
    assert context.throttle_time_ms == 0
    _, context = stage.ask(0, 9, ProduceRequest(), None, size=50)
    assert (context.throttle_time_ms, stage.still_s) == (500, [0.5])


def test_a_request_that_fails_is_counted_too() -> None:
    stage = Stage(producer_byte_rate=100)
    with pytest.raises(KafkaError):
        stage.ask(0, 9, ProduceRequest(), KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), size=1100)
    assert stage.still_s == [1.0]


def test_bytes_fetched_are_those_of_the_answer_and_have_a_bound() -> None:
    stage = Stage(consumer_byte_rate=100)
    asked = FetchRequest(max_bytes=10_000)
    _, context = stage.ask(1, 12, asked, RawResponse([b"x" * 1092, b"y" * 100]))
    assert asked.max_bytes == 1000
    assert context.throttle_time_ms == 2000


def test_replicas_and_controllers_have_no_quota() -> None:
    stage = Stage(consumer_byte_rate=1, request_percentage=0.0001)
    stage.ask(1, 12, FetchRequest(replica_id=2), RawResponse([b"x" * 1000]))
    stage.ask(1, 17, FetchRequest(), RawResponse([b"x" * 1000]), kind=ListenerKind.CONTROLLER)
    assert stage.still_s == []


def test_time_on_the_loop_is_counted_and_throttles_for_one_window_at_most() -> None:
    stage = Stage(request_percentage=0.000001)
    _, context = stage.ask(12, 4, HeartbeatRequest(), lambda request: HeartbeatResponse())
    assert context.throttle_time_ms == 1000


class FakeNode:
    image = MetadataImage()


def created(request: CreateTopicsRequest) -> CreateTopicsResponse:
    wrong = ErrorCode.INVALID_TOPIC_EXCEPTION
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=each.name, error_code=wrong if each.name == "wrong" else 0)
            for each in request.topics
        ]
    )


def test_topics_beyond_the_quota_are_refused_and_those_that_fail_cost_nothing() -> None:
    stage = Stage(controller_mutation_rate=1)
    names = [("wrong", 5), ("a", 10), ("b", 1)]
    asked = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in names]
    )
    response, context = stage.ask(19, 7, asked, created, node=FakeNode())
    assert {each.name: each.error_code for each in response.topics} == {
        "wrong": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "a": 0,
        "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
    assert context.throttle_time_ms == 0  # of 11 tokens one is left
    asked.topics = asked.topics[1:2]
    response, context = stage.ask(19, 5, asked, created, node=FakeNode())
    assert (response.topics[0].error_code, context.throttle_time_ms) == (0, 9000)
    response, context = stage.ask(19, 5, asked, created, node=FakeNode())
    assert response.topics[0].error_code == 0  # older versions cannot be refused
    response, context = stage.ask(19, 6, asked, created, node=FakeNode())
    assert response.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert context.throttle_time_ms == 19_000
