"""What a transaction's coordinator is told when a marker for __consumer_offsets could not be written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.coordinator.decision import Marker
from barnabas.core.coordinator.promise import Promise
from barnabas.node.broker.transactions.markers import NOT_READY, write_marker
from barnabas.wire.errors import ErrorCode, KafkaError


def node_whose_groups_answer(answer: Promise[None]) -> Any:
    producers = SimpleNamespace(check_marker=lambda *_: None)
    partition = SimpleNamespace(require_available=lambda: None, log=SimpleNamespace(producers=producers))
    led = SimpleNamespace(submit=lambda _: answer, write=lambda: None)
    return SimpleNamespace(
        partitions=SimpleNamespace(get=lambda *_: partition), groups=SimpleNamespace(led=lambda _: led)
    )


def written(answer: Promise[None]) -> Promise[None]:
    return write_marker(node_whose_groups_answer(answer), "__consumer_offsets", 0, Marker(1, 0, 0, True), 1)


@pytest.mark.parametrize("code", sorted(NOT_READY))
def test_a_group_coordinator_that_loses_its_partition_meanwhile_answers_as_a_partition(code: ErrorCode) -> None:
    answer: Promise[None] = Promise()
    promise = written(answer)
    assert not promise.is_done
    answer.fail(KafkaError(code))
    assert promise.error is not None
    assert promise.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_other_errors_and_success_are_passed_on() -> None:
    failed: Promise[None] = Promise()
    failed.fail(KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH))
    error = written(failed).error
    assert error is not None
    assert error.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert written(Promise.of(None)).result() is None
