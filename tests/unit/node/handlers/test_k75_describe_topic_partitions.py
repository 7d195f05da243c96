from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.security.model import Operation
from barnabas.node.handlers import k75_describe_topic_partitions as handler
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

Maker = Callable[..., Any]


def asked(*names: str, limit: int = 2000, after: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if after is None else Cursor(topic_name=after[0], partition_index=after[1]),
    )


@pytest.fixture
def answer(node: Any, context: Maker, run: Maker) -> Maker:
    def of(request: DescribeTopicPartitionsRequest, *denied: tuple[Operation, str]) -> DescribeTopicPartitionsResponse:
        response = run(handler.handle(context(75, 0, *denied), request, node))
        assert isinstance(response, DescribeTopicPartitionsResponse)
        return response

    return of


def pages(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(topic.name, [part.partition_index for part in topic.partitions]) for topic in response.topics]


def test_topics_come_in_the_order_of_their_names(answer: Maker) -> None:
    assert pages(answer(asked("c", "a", "c"))) == [("a", [0, 1]), ("c", [0])]
    assert pages(answer(asked())) == [("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]


def test_pages_follow_each_other_until_everything_was_told(answer: Maker) -> None:
    request, told, count = asked(limit=2), [], 0
    while True:
        response = answer(request)
        told += pages(response)
        count += 1
        if response.next_cursor is None:
            break
        request.cursor = response.next_cursor
    assert told == [("a", [0, 1]), ("b", [0, 1]), ("b", [2]), ("c", [0])]
    assert count == 3


def test_a_full_page_names_the_topic_that_comes_next(answer: Maker) -> None:
    assert answer(asked(limit=2)).next_cursor == Cursor(topic_name="b", partition_index=0)
    assert answer(asked(limit=4)).next_cursor == Cursor(topic_name="b", partition_index=2)
    assert answer(asked(limit=6)).next_cursor is None


@pytest.mark.parametrize("limit", [1, 0, -5])
def test_a_page_has_at_least_one_partition(answer: Maker, limit: int) -> None:
    assert pages(answer(asked(limit=limit))) == [("a", [0])]


def test_the_broker_limits_a_page_too(answer: Maker, node: Any) -> None:
    node.config.max_request_partition_size_limit = 3
    assert pages(answer(asked())) == [("a", [0, 1]), ("b", [0])]


def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic(answer: Maker) -> None:
    assert pages(answer(asked("b", "c", after=("b", 99)))) == [("b", []), ("c", [0])]


def test_a_cursor_between_topics_goes_on_behind_it(answer: Maker) -> None:
    assert pages(answer(asked(after=("aa", 1)))) == [("b", [0, 1, 2]), ("c", [0])]


def test_unknown_and_bad_names_are_told_apart(answer: Maker) -> None:
    response = answer(asked("nope", "no way", ""))
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "no way": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_what_may_not_be_seen_is_refused_if_named_and_else_left_out(answer: Maker) -> None:
    denied = (Operation.DESCRIBE, "a")
    named = answer(asked("a", "b"), denied)
    assert [(topic.name, topic.error_code) for topic in named.topics] == [("b", 0), ("a", 29)]
    assert [topic.name for topic in answer(asked(), denied).topics] == ["b", "c"]


@pytest.mark.parametrize("after", [("b", -1), ("c", 0)])
def test_a_cursor_that_makes_no_sense_refuses_the_request(answer: Maker, after: tuple[str, int]) -> None:
    request = asked("a", "b", after=after)
    with pytest.raises(KafkaError) as caught:
        answer(request)
    refusal = handler.error_response(request, caught.value)
    assert [(topic.name, topic.error_code) for topic in refusal.topics] == [("a", 42), ("b", 42)]
