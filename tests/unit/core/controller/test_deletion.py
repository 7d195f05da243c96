from collections.abc import Callable

from barnabas.core.controller.deletion import delete_topics
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.records.metadata import RemoveTopicRecord
from barnabas.wire.uuids import ZERO_UUID, Uuid

Cluster = Callable[..., MetadataImage]
TOPICS = {"a": [[1]], "b": [[1]], "c": [[1]]}


def identity(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


A, B, C, UNKNOWN = (identity(number) for number in (1, 2, 3, 99))


def by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def by_id(topic_id: Uuid) -> DeleteTopicState:
    return DeleteTopicState(topic_id=topic_id)


def outcome(response: DeleteTopicsResponse) -> list[tuple[str | None, Uuid, ErrorCode]]:
    return [(each.name, each.topic_id, ErrorCode(each.error_code)) for each in response.responses]


def test_topics_are_deleted_by_name_and_by_id(cluster: Cluster) -> None:
    decision = delete_topics(cluster(topics=TOPICS), DeleteTopicsRequest(topics=[by_name("a"), by_id(B)]))
    assert decision.records == [RemoveTopicRecord(topic_id=B), RemoveTopicRecord(topic_id=A)]
    assert decision.response.responses == [
        DeletableTopicResult(name="b", topic_id=B),
        DeletableTopicResult(name="a", topic_id=A),
    ]


def test_older_versions_give_names_only(cluster: Cluster) -> None:
    decision = delete_topics(cluster(topics=TOPICS), DeleteTopicsRequest(topic_names=["a", "nope", "c", "c"]))
    assert decision.records == [RemoveTopicRecord(topic_id=A)]
    assert outcome(decision.response) == [
        ("nope", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("c", ZERO_UUID, ErrorCode.INVALID_REQUEST),
        ("a", A, ErrorCode.NONE),
    ]


def test_what_is_not_clear_is_not_deleted(cluster: Cluster) -> None:
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(),
            DeleteTopicState(name="a", topic_id=A),
            by_id(B),
            by_name("b"),
            by_id(C),
            by_id(C),
            by_id(UNKNOWN),
        ]
    )
    decision = delete_topics(cluster(topics=TOPICS), request)
    assert decision.records == []
    assert outcome(decision.response) == [
        (None, ZERO_UUID, ErrorCode.INVALID_REQUEST),
        ("a", A, ErrorCode.INVALID_REQUEST),
        (None, C, ErrorCode.INVALID_REQUEST),
        (None, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", B, ErrorCode.INVALID_REQUEST),
    ]


def test_a_topic_given_by_name_and_twice_by_id_stays(cluster: Cluster) -> None:
    decision = delete_topics(cluster(topics=TOPICS), DeleteTopicsRequest(topics=[by_id(A), by_name("a"), by_id(A)]))
    assert decision.records == []
    assert outcome(decision.response) == [
        (None, A, ErrorCode.INVALID_REQUEST),
        ("a", A, ErrorCode.INVALID_REQUEST),
    ]


def test_who_may_not_see_a_topic_does_not_learn_whether_it_exists(cluster: Cluster) -> None:
    request = DeleteTopicsRequest(topics=[by_name("a"), by_name("nope"), by_id(B)])
    decision = delete_topics(
        cluster(topics=TOPICS), request, may_describe=lambda name: False, may_delete=lambda name: False
    )
    assert decision.records == []
    assert outcome(decision.response) == [
        (None, B, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("a", ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("nope", ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


def test_who_may_see_but_not_delete_is_told(cluster: Cluster) -> None:
    request = DeleteTopicsRequest(topics=[by_name("a"), by_name("nope"), by_id(B)])
    decision = delete_topics(cluster(topics=TOPICS), request, may_delete=lambda name: False)
    assert outcome(decision.response) == [
        ("b", B, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("a", ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("nope", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_deleted_topic_is_gone_from_the_image(cluster: Cluster) -> None:
    image = cluster(topics=TOPICS)
    image.replay_all(delete_topics(image, DeleteTopicsRequest(topic_names=["a", "b"])).records)
    assert list(image.topics) == ["c"]
