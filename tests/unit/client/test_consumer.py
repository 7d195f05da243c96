"""A reader whose batches are not all sound: nothing that was not returned counts as read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.consumer import AssignedConsumer
from barnabas.client.errors import UnreadableAnswer
from barnabas.client.fetcher import Fetched
from barnabas.wire.batch import Record, build_batch


def fetched(topic: str, *batches: bytes, offset: int = 0) -> Fetched:
    return Fetched(topic, 0, offset, 10 * len(batches), b"".join(batches), 100, 100, 0)


def ten(topic: str, base_offset: int, *, damaged: bool = False) -> bytes:
    records = [Record(base_offset + i, 0, None, b"%s %d" % (topic.encode(), base_offset + i)) for i in range(10)]
    batch = build_batch(records, base_offset=base_offset)
    if damaged:
        batch[-1] ^= 1
    return bytes(batch)


@pytest.fixture
def reader(scripted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> AssignedConsumer:
    """It is given these partitions at once: all of `a`, and two batches of `b` of which the second is damaged."""
    consumer = AssignedConsumer(scripted({}).settings())
    consumer._assign({("a", 0): 0, ("b", 0): 0})
    answers = [[fetched("a", ten("a", 0)), fetched("b", ten("b", 0), ten("b", 10, damaged=True))]]
    monkeypatch.setattr(consumer._fetcher, "poll", lambda timeout_ms: answers.pop() if answers else [])
    return consumer


def test_what_was_read_before_a_damaged_batch_is_returned_and_the_batch_is_never_passed_over(
    reader: AssignedConsumer,
) -> None:
    found = [record.value for record in reader.poll(0)]
    assert found == [*(b"a %d" % i for i in range(10)), *(b"b %d" % i for i in range(10))]
    for _ in range(3):
        assert reader.positions == {("a", 0): 10, ("b", 0): 10}
        with pytest.raises(UnreadableAnswer, match="The batch at offset 10 of b-0 is corrupt"):
            reader.poll(0)
    reader.seek("b", 0, 20)
    assert reader.poll(0) == []
    assert reader.positions == {("a", 0): 10, ("b", 0): 20}


def test_an_explicit_empty_commit_commits_nothing(reader: AssignedConsumer) -> None:
    reader.commit({})
