from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.security.model import Operation
from barnabas.node.handlers import k20_delete_topics as handler
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

Maker = Callable[..., Any]
CLUSTER = "kafka-cluster"


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.INVALID_REQUEST), (3, 73), (6, 73)]
)
def test_where_deletion_is_switched_off_every_topic_is_refused(
    node: Any, context: Maker, run: Maker, version: int, code: int
) -> None:
    node.config.delete_topic_enable = False
    names = ["a", "nope"]
    topics = [DeleteTopicState(name=name) for name in names]
    request = DeleteTopicsRequest(topics=topics) if version == 6 else DeleteTopicsRequest(topic_names=names)
    with pytest.raises(KafkaError) as caught:
        run(node.controller.execute(context(20, version), request))
    refusal = DeleteTopicsResponse.decode(handler.error_response(request, caught.value).encode(version), version)
    assert [(each.name, each.error_code, each.error_message) for each in refusal.responses] == [
        ("a", code, None),
        ("nope", code, None),
    ]


def test_who_may_delete_in_the_cluster_may_delete_every_topic(node: Any, context: Maker, run: Maker) -> None:
    caller = context(20, 6, (Operation.DELETE, "a"), (Operation.DESCRIBE, "a"))
    response = run(
        node.controller.execute(caller, DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=100))
    )
    assert [each.error_code for each in response.responses] == [ErrorCode.NONE]
    assert "a" not in node.image.topics


def test_without_that_each_topic_counts(node: Any, context: Maker, run: Maker) -> None:
    caller = context(20, 6, (Operation.DELETE, CLUSTER), (Operation.DELETE, "a"))
    topics = [DeleteTopicState(name="a"), DeleteTopicState(name="b")]
    response = run(node.controller.execute(caller, DeleteTopicsRequest(topics=topics, timeout_ms=100)))
    assert {each.name: each.error_code for each in response.responses} == {
        "a": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "b": ErrorCode.NONE,
    }
    assert list(node.image.topics) == ["a", "c"]
