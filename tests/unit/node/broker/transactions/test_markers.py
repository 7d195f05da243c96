"""Markers for __consumer_offsets: what they make valid, and what is told if they could not be written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.coordinator.decision import Marker, Producer
from barnabas.core.coordinator.promise import Promise
from barnabas.core.groups.commits import Commit, Committer
from barnabas.node.broker.coordinators.coordinator import result_of
from barnabas.node.broker.transactions.markers import NOT_READY, write_marker
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.node.broker.coordinators.test_shard import led, partition


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


def test_a_late_marker_does_not_make_offsets_valid_that_are_not_in_the_log_yet(tmp_path: Path) -> None:
    """With an epoch for each transaction, that of a marker is the epoch of the next transaction."""

    async def story() -> None:
        on = partition(tmp_path)
        shell = led(on)
        shell.load()
        offsets = [Commit("t", 0, 5)]
        shell.submit(lambda shard: shard.commits.commit_in_transaction(Committer("g"), offsets, Producer(7, 3)))
        node: Any = SimpleNamespace(
            partitions=SimpleNamespace(get=lambda *_: on), groups=SimpleNamespace(led=lambda _: shell)
        )
        with pytest.raises(KafkaError) as refused:
            write_marker(node, "__consumer_offsets", 0, Marker(7, 3, 0, True), 2)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert shell.shard.commits.fetch("g", [("t", 0)], stable=True)[0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
        await result_of(write_marker(node, "__consumer_offsets", 0, Marker(7, 4, 0, True), 2))
        (found,) = shell.shard.commits.fetch("g", [("t", 0)], stable=True)
        assert found.committed is not None
        assert found.committed.offset == 5
        shell.lose()

    asyncio.run(story())
