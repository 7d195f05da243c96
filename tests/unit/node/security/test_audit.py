from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.security.authorizer import DEFAULT_DENY, SUPER_USER
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import own_context
from barnabas.node.security.audit import ACTIONS_PER_MINUTE, DENIALS_PER_MINUTE, Audit
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

BOB = ("User:bob", "10.0.0.7")


class Stage:
    def __init__(self, *, learns: bool = False) -> None:
        self.now = 0.0
        self.lines: list[dict[str, Any]] = []
        self.audit = Audit(1, learns=learns, publish=self._publish, clock=lambda: self.now)

    def _publish(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    def deny(self, name: str) -> None:
        self.audit.denied(*BOB, Operation.READ, Resource.topic(name), DEFAULT_DENY)

    def ask(self, request: Any, answer: Any) -> None:
        async def handle(context: Any, request: Any, node: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        wrapped = self.audit.wrap(SimpleNamespace(api_key=request.api_key), handle)
        asyncio.run(wrapped(own_context(request), request, None))


def test_names_that_a_client_invents_do_not_fill_the_log_and_what_was_left_out_is_counted() -> None:
    stage = Stage()
    for number in range(1000):
        stage.deny(f"invented-{number}")
    assert len(stage.lines) == DENIALS_PER_MINUTE
    stage.now = 61.0
    stage.deny("orders")
    last = stage.lines[-1]
    assert last["left_out"] == 1000 - DENIALS_PER_MINUTE
    expected = {"node": 1, "event": "denied", "principal": "User:bob", "host": "10.0.0.7", "operation": "READ"}
    assert last.items() >= (expected | {"type": "TOPIC", "name": "orders", "by": "DefaultDeny"}).items()


def test_an_action_is_told_with_names_and_errors() -> None:
    stage = Stage()
    topics = [CreatableTopicResult(name="a"), CreatableTopicResult(name="b", error_code=ErrorCode.INVALID_PARTITIONS)]
    request = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")])
    stage.ask(request, CreateTopicsResponse(topics=topics))
    with pytest.raises(KafkaError):
        stage.ask(request, KafkaError(ErrorCode.NOT_CONTROLLER))
    assert [(line["api"], line["names"], line["errors"]) for line in stage.lines] == [
        ("CreateTopics", ["a", "b"], ["INVALID_PARTITIONS"]),
        ("CreateTopics", ["a", "b"], ["NOT_CONTROLLER"]),
    ]
    for _ in range(ACTIONS_PER_MINUTE * 2):
        stage.ask(request, CreateTopicsResponse())
    assert len(stage.lines) == ACTIONS_PER_MINUTE


def test_no_secret_is_in_a_line() -> None:
    stage = Stage()
    upsertion = ScramCredentialUpsertion(name="anna", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"pw")
    stage.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), AlterUserScramCredentialsResponse())
    assert stage.lines[0]["names"] == ["anna"]
    assert "salt" not in json.dumps(stage.lines)


def test_a_right_is_learned_once() -> None:
    stage = Stage(learns=True)
    for _ in range(3):
        stage.audit.allowed(*BOB, Operation.READ, Resource.topic("orders"), SUPER_USER)
        stage.audit.allowed(*BOB, Operation.WRITE, Resource.topic("orders"), SUPER_USER)
    assert [line["operation"] for line in stage.lines] == ["READ", "WRITE"]
