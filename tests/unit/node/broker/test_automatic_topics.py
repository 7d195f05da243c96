from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from barnabas.core.metadata.state import MetadataDelta, TopicState
from barnabas.node.broker.automatic_topics import AutomaticTopics
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.uuids import ZERO_UUID
from tests.support.waiting import until


class Refusing:
    async def request(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        code, message = ErrorCode.INVALID_TOPIC_EXCEPTION, "it would collide"
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=each.name, error_code=code, error_message=message) for each in request.topics
            ]
        )


class Config:
    def value(self, name: str) -> int:
        return 1


def test_however_many_names_a_client_thinks_of_the_log_gets_one_line(caplog: pytest.LogCaptureFixture) -> None:
    controller: Any = Refusing()
    config: Any = Config()
    topics = AutomaticTopics(controller, lambda: config, lambda: 0)
    with caplog.at_level(logging.WARNING):
        for start in range(3):
            asyncio.run(topics.create([f"a.{start}.{number}" for number in range(1000)]))
    assert [record.getMessage() for record in caplog.records] == [
        "Topic 'a.0.0' and 999 others were not created automatically: it would collide"
    ]


class Making:
    """Creates what is asked for, when it is told to."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.may_go_on = asyncio.Event()

    async def request(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        await self.may_go_on.wait()
        self.made += [each.name for each in request.topics]
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=each.name) for each in request.topics])


def deleted(name: str) -> MetadataDelta:
    return MetadataDelta(deleted_topics=[TopicState(name, ZERO_UUID, {})])


def test_a_topic_that_was_just_deleted_is_created_without_waiting_for_it() -> None:
    async def story() -> None:
        now_ms = 0
        controller, config = Making(), Config()
        topics = AutomaticTopics(controller, lambda: config, lambda: now_ms)  # type: ignore[arg-type, return-value]
        topics.apply(deleted("gone"))
        await topics.create_for_client(["gone"])
        assert controller.made == []
        controller.may_go_on.set()
        await topics.create_for_client(["gone", "new"])  # told once: now it is waited for as any other
        await until(lambda: len(controller.made) == 3)
        assert sorted(controller.made) == ["gone", "gone", "new"]
        topics.apply(deleted("gone"))
        now_ms += 10_001
        controller.made.clear()
        await topics.create_for_client(["gone"])
        assert controller.made == ["gone"]
        await topics.stop()

    asyncio.run(story())
