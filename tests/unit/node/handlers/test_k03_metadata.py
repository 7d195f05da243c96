from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.security.model import Operation
from barnabas.node.handlers import k03_metadata
from barnabas.node.requests import RawResponse
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.uuids import ZERO_UUID, Uuid

Maker = Callable[..., Any]
A = Uuid((1).to_bytes(16, "big"))
CLUSTER = "kafka-cluster"


def asked(*names: str | None, **rest: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **rest)


def by_id(*ids: Uuid) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=each, name=None) for each in ids])


@pytest.fixture
def answer(node: Any, context: Maker, run: Maker) -> Maker:
    def of(request: MetadataRequest, *denied: tuple[Operation, str], version: int = 13) -> MetadataResponse:
        response = run(k03_metadata.handle(context(3, version, *denied), request, node))
        assert isinstance(response, RawResponse)
        return MetadataResponse.decode(b"".join(bytes(part) for part in response.parts), version)  # type: ignore[arg-type]

    return of


def outcome(response: MetadataResponse) -> dict[str | None, tuple[ErrorCode, int]]:
    return {topic.name: (ErrorCode(topic.error_code), len(topic.partitions)) for topic in response.topics}


@pytest.mark.parametrize("version", range(1, 14))
def test_null_asks_for_all_topics_and_an_empty_list_for_none(answer: Maker, version: int) -> None:
    assert list(outcome(answer(MetadataRequest(topics=None), version=version))) == ["a", "b", "c"]
    assert outcome(answer(MetadataRequest(topics=[]), version=version)) == {}


def test_in_version_0_an_empty_list_asks_for_all(answer: Maker) -> None:
    assert list(outcome(answer(MetadataRequest(topics=[]), version=0))) == ["a", "b", "c"]


def test_a_missing_topic_is_created_and_answered_ready(answer: Maker, node: Any) -> None:
    made: list[str] = []

    async def create(names: list[str]) -> None:
        made.extend(names)

    node.automatic_topics = SimpleNamespace(create_for_client=create)
    response = answer(asked("a", "new", "no way", "new"))
    assert made == ["new"]
    assert outcome(response) == {
        "a": (ErrorCode.NONE, 2),
        "new": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        "no way": (ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
    }


@pytest.mark.parametrize("by", ["request", "broker"])
def test_nothing_is_created_where_it_is_not_wanted(answer: Maker, node: Any, by: str) -> None:
    node.config.auto_create_topics_enable = by != "broker"
    response = answer(asked("new", allow_auto_topic_creation=by != "request"))
    assert outcome(response) == {"new": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}


def test_who_may_not_create_does_not(answer: Maker, node: Any) -> None:
    made: list[str] = []

    async def create(names: list[str]) -> None:
        made.extend(names)

    node.automatic_topics = SimpleNamespace(create_for_client=create)
    response = answer(asked("mine", "theirs"), (Operation.CREATE, CLUSTER), (Operation.CREATE, "theirs"))
    assert made == ["mine"]
    assert outcome(response)["theirs"] == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)


def test_who_may_not_see_a_topic_gets_it_refused_by_name_and_not_listed(answer: Maker) -> None:
    denied = (Operation.DESCRIBE, "b")
    assert outcome(answer(asked("a", "b"), denied)) == {
        "a": (ErrorCode.NONE, 2),
        "b": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0),
    }
    assert answer(asked("b"), denied).topics[0].topic_id == ZERO_UUID
    assert list(outcome(answer(MetadataRequest(topics=None), denied))) == ["a", "c"]


def test_topics_by_id_hide_the_names_of_what_may_not_be_seen(answer: Maker) -> None:
    unknown = Uuid(b"?" * 16)
    assert outcome(answer(by_id(A, unknown))) == {"a": (ErrorCode.NONE, 2), None: (ErrorCode.UNKNOWN_TOPIC_ID, 0)}
    refused = answer(by_id(A), (Operation.DESCRIBE, "a")).topics[0]
    assert (refused.name, refused.topic_id, refused.error_code) == (None, A, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_with_an_id_in_the_request_names_do_not_count(answer: Maker) -> None:
    mixed = MetadataRequest(topics=[MetadataRequestTopic(name="b"), MetadataRequestTopic(topic_id=A, name="c")])
    assert outcome(answer(mixed)) == {"a": (ErrorCode.NONE, 2)}


@pytest.mark.parametrize(
    ("request_", "version"),
    [(by_id(A), 11), (by_id(ZERO_UUID), 12), (asked(None), 10), (asked("a", None), 13)],
)
def test_what_a_version_cannot_ask_is_refused_whole(answer: Maker, request_: MetadataRequest, version: int) -> None:
    with pytest.raises(KafkaError) as caught:
        answer(request_, version=version)
    refusal = k03_metadata.error_response(request_, caught.value)
    decoded = MetadataResponse.decode(refusal.encode(version), version)
    assert {topic.error_code for topic in decoded.topics} == {ErrorCode.INVALID_REQUEST}
    assert decoded.brokers == []


def test_operations_are_told_where_asked(answer: Maker) -> None:
    request = asked("a", "nope", include_topic_authorized_operations=True, allow_auto_topic_creation=False)
    request.include_cluster_authorized_operations = True
    response = answer(request, version=10)
    assert [topic.topic_authorized_operations for topic in response.topics] == [3576, 3576]
    assert response.cluster_authorized_operations == 8096
    assert answer(request, (Operation.DESCRIBE, CLUSTER), version=10).cluster_authorized_operations == 0
    everything = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    limited = answer(everything, (Operation.DELETE, "b"))
    assert [topic.topic_authorized_operations for topic in limited.topics] == [3576, 3576 - 64, 3576]
