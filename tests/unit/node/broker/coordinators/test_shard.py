"""The shell around a shard: appending, loading, losing, timing, on a partition with a real log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.coordinator.decision import Decision, Producer
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.groups.membership import Caller
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.shard import GroupShard
from barnabas.core.metadata.state import PartitionState
from barnabas.node.broker.coordinators.coordinator import monotonic_ms, result_of
from barnabas.node.broker.coordinators.shard import LedShard
from barnabas.node.broker.partition import Partition
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.node.storage.origin import Origin
from barnabas.wire.batch import Record, build_batch, iterate_batches
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.uuids import ZERO_UUID
from tests.support.waiting import until

SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)


def partition(directory: Path, *, replicas: tuple[int, ...] = (1,)) -> Partition:
    path = directory / "__consumer_offsets-0"
    log = create_log(path, "__consumer_offsets", 0, LogConfig(), now_ms=0)
    return Partition(1, state(replicas), log, 0)


def state(replicas: tuple[int, ...] = (1,), leader: int = 1) -> PartitionState:
    return PartitionState(
        topic_id=ZERO_UUID,
        topic="__consumer_offsets",
        index=0,
        replicas=list(replicas),
        isr=list(replicas),
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        leader_recovery_state=0,
        directories=[],
        adding_replicas=[],
        removing_replicas=[],
        eligible_leader_replicas=[],
        last_known_elr=[],
    )


def led(on: Partition) -> LedShard[GroupShard]:
    shard = GroupShard(Timers(monotonic_ms), lambda: SETTINGS, lambda: 1_000, lambda: "id")
    return LedShard(on, shard, lambda: 1_000)


def commit(offset: int, group: str = "g") -> Any:
    return lambda shard: shard.commits.commit(Committer(group), [Commit("t", 0, offset)])


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(story(), 10)

    asyncio.run(limited())


def test_what_is_submitted_at_once_is_kept_before_the_loop_turns(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path)
        shell = led(on)
        shell.load()
        waits = shell.submit(commit(1))
        assert not waits.is_done
        promise = shell.submit_at_once(commit(2))
        assert isinstance(promise, Promise)
        assert promise.result() == waits.result() == [ErrorCode.NONE]  # the first lay before, so it went along
        assert len(list(iterate_batches(on.log.read(0, 1 << 20)))) == 1
        assert shell.submit_at_once(commit(3)) == [ErrorCode.NONE]
        assert on.log.log_end_offset == 3
        assert shell.shard.offsets.committed("g", "t", 0).offset == 3  # type: ignore[union-attr]
        on.log.offline = True
        with pytest.raises(KafkaError) as refused:
            shell.submit_at_once(commit(4))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        on.log.offline = False
        assert shell.shard.offsets.latest("g", "t", 0).offset == 3  # type: ignore[union-attr]
        later = shell.submit(commit(5))
        assert shell.shard.offsets.committed("g", "t", 0).offset == 3  # type: ignore[union-attr]
        shell.write()
        assert later.result() == [ErrorCode.NONE]

    run(story)


def test_what_is_submitted_at_once_waits_for_the_other_replicas(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path, replicas=(1, 2))
        shell = led(on)
        shell.load()
        waits = shell.submit_at_once(commit(1))
        assert isinstance(waits, Promise)
        assert not waits.is_done
        on.fetched_by(2, 1, -1, 0)
        assert waits.result() == [ErrorCode.NONE]

    run(story)


def test_who_waits_too_long_for_replicas_is_told_so_and_what_was_written_stays(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path, replicas=(1, 2))
        shard = GroupShard(Timers(monotonic_ms), lambda: SETTINGS, lambda: 1_000, lambda: "id")
        shell = LedShard(on, shard, lambda: 1_000, write_timeout_ms=100)
        shell.load()
        began = monotonic_ms()
        with pytest.raises(KafkaError) as refused:
            await result_of(shell.submit(commit(1)))
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert monotonic_ms() - began >= 95
        later = shell.submit(commit(2, "h"))
        await until(lambda: on.log.log_end_offset == 2)
        on.fetched_by(2, 2, -1, 0)
        assert later.result() == [ErrorCode.NONE]
        assert [shard.offsets.committed(group, "t", 0) is not None for group in ("g", "h")] == [True, True]
        assert await result_of(shell.submit(lambda _: Decision([], "idle"))) == "idle"

    run(story)


def test_decisions_of_one_turn_are_one_batch_on_disk(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path)
        shell = led(on)
        shell.load()
        answers = [shell.submit(commit(number, f"g{number}")) for number in range(20)]
        assert on.log.log_end_offset == 0
        assert [await result_of(each) for each in answers] == [[ErrorCode.NONE]] * 20
        assert len(list(iterate_batches(on.log.read(0, 1 << 20)))) == 1
        assert on.high_watermark == 20

    run(story)


def test_an_answer_waits_for_the_in_sync_replicas(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path, replicas=(1, 2))
        shell = led(on)
        shell.load()
        answer = shell.submit(commit(5))
        await until(lambda: on.log.log_end_offset == 1)
        assert not answer.is_done
        assert shell.shard.offsets.committed("g", "t", 0) is None
        on.fetched_by(2, 1, -1, 0)
        assert answer.result() == [ErrorCode.NONE]

    run(story)


@pytest.mark.parametrize("count", [1, 5_000])
def test_what_was_written_is_loaded_piece_by_piece(tmp_path: Path, count: int) -> None:
    async def story() -> None:
        on = partition(tmp_path)
        writer = led(on)
        writer.load()
        for number in range(count):
            answer = writer.submit(commit(number, f"g{number % 1000}"))
            if number % 50 == 0:
                await result_of(answer)
        await result_of(answer)
        writer.lose()
        reader = led(on)
        reader.load()
        with pytest.raises(KafkaError) as refused:
            reader.require_loaded()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await until(lambda: reader.is_loaded)
        last = reader.shard.offsets.committed(f"g{(count - 1) % 1000}", "t", 0)
        assert last is not None
        assert last.offset == count - 1
        assert len(reader.shard.groups) == min(count, 1000)

    run(story)


OFFSET_KEY = b"\0\1\0\1g\0\1t\0\0\0\1"
UNREADABLE = [
    (b"", b""),
    (b"\0", b"v"),
    (b"\0\1\xff", b"\0\3"),  # the key ends early
    (OFFSET_KEY + b"x", b"\0\3"),  # and too late
    (OFFSET_KEY, b""),
    (OFFSET_KEY, b"\0\3\0"),
    (OFFSET_KEY, b"\0\x63" + bytes(30)),  # a version that nobody knows
    (OFFSET_KEY, b"\0\3" + bytes(12) + b"\x7f\xff" + bytes(8)),  # metadata that is not there
    (OFFSET_KEY, b"\0\3" + bytes(12) + b"\0\1\xff" + bytes(8)),  # and that is no text
    (b"\0\2\0\1g", b"\0\3garbage"),
]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("transactional", [False, True])
def test_what_cannot_be_read_is_skipped_and_told(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_large: bool,
    transactional: bool,
) -> None:
    if is_large:
        monkeypatch.setattr("barnabas.node.broker.coordinators.shard.LOAD_FAST_BYTES", 0)

    async def story() -> None:
        on = partition(tmp_path)
        writer = led(on)
        writer.load()
        await result_of(writer.submit(commit(5, "before")))
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        records = [Record(number, 1_000, key, value) for number, (key, value) in enumerate(UNREADABLE)]
        on.append(build_batch(records, **(producer if transactional else {})), -1, 1_000, Origin.COORDINATOR)  # type: ignore[arg-type]
        on.append(build_batch([Record(0, 1_000, b"\0", b"v")]), -1, 1_000, Origin.COORDINATOR)
        await result_of(writer.submit(commit(6, "behind")))
        writer.lose()
        reader = led(on)
        reader.load()
        await until(lambda: reader.is_loaded)
        found = {group: reader.shard.offsets.committed(group, "t", 0) for group in ("before", "behind")}
        assert [each.offset for each in found.values() if each is not None] == [5, 6]

    run(story)
    lines = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    told = "__consumer_offsets-0: skipped while loading, because it cannot be read: the record with key 00: "
    assert any(line.startswith(told) for line in lines)


def test_records_above_the_high_watermark_are_loaded_as_uncommitted(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path, replicas=(1, 2))
        writer = led(on)
        writer.load()
        writer.submit(commit(5))
        await until(lambda: on.log.log_end_offset == 1)
        writer.lose()
        reader = led(on)
        reader.load()
        await until(lambda: reader.is_loaded)
        assert reader.shard.offsets.committed("g", "t", 0) is None
        assert reader.shard.offsets.latest("g", "t", 0) is not None
        on.fetched_by(2, 1, -1, 0)
        assert reader.shard.offsets.committed("g", "t", 0) is not None

    run(story)


def test_a_failed_append_is_told_and_undone(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path)
        shell = led(on)
        shell.load()
        await result_of(shell.submit(commit(5)))
        on.log.offline = True
        with pytest.raises(KafkaError) as refused:
            await result_of(shell.submit(commit(6)))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        found = shell.shard.offsets.latest("g", "t", 0)
        assert found is not None
        assert found.offset == 5

    run(story)


def test_another_leader_means_another_coordinator(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path, replicas=(1, 2))
        shell = led(on)
        shell.load()
        answer = shell.submit(commit(5))
        await until(lambda: on.log.log_end_offset == 1)
        on.apply(state((1, 2), leader=2))
        await until(lambda: answer.is_done)
        assert answer.error is not None
        assert answer.error.code is ErrorCode.NOT_COORDINATOR
        with pytest.raises(KafkaError) as refused:
            shell.require_loaded()
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert shell not in on.watchers

    run(story)


def test_timers_of_the_shard_fire_by_themselves(tmp_path: Path) -> None:
    async def story() -> None:
        shell = led(partition(tmp_path))
        shell.load()
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        caller = Caller("client", "/host", must_know_its_id=False)
        answer = await result_of(shell.submit(lambda shard: shard.members.join(request, caller)))
        assert (answer.generation_id, answer.leader) == (1, "client-id")
        shell.lose()

    run(story)


def test_a_topic_that_flushes_every_message_answers_after_the_sync(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path)
        on.log.config = LogConfig(flush_messages=1)
        syncs: list[asyncio.Future[int]] = []

        class Disk:
            def sync(self, log: PartitionLog) -> asyncio.Future[int]:
                syncs.append(asyncio.get_running_loop().create_future())
                return syncs[-1]

        on.log.background = Disk()  # type: ignore[assignment]
        shell = led(on)
        shell.load()
        answer = shell.submit(commit(5))
        await until(lambda: bool(syncs))
        assert not answer.is_done
        syncs[0].set_result(1)
        await until(lambda: answer.is_done)
        assert answer.result() == [ErrorCode.NONE]

    run(story)


def test_a_fenced_producer_is_no_matter_of_who_commits_behind_it(tmp_path: Path) -> None:
    async def story() -> None:
        on = partition(tmp_path)
        shell = led(on)
        shell.load()

        def in_transaction(epoch: int) -> Any:
            offsets = [Commit("t", 0, 7)]
            return lambda shard: shard.commits.commit_in_transaction(Committer("g"), offsets, Producer(1, epoch))

        await result_of(shell.submit(in_transaction(5)))
        fenced, behind = shell.submit(in_transaction(4)), shell.submit(commit(3))
        with pytest.raises(KafkaError) as refused:
            await result_of(fenced)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        with pytest.raises(KafkaError) as tried_again:
            await result_of(behind)
        assert tried_again.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await result_of(shell.submit(commit(3)))
        shell.lose()

    run(story)
