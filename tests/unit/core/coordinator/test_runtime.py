"""The shared runtime, driven by a shard that keeps one number per name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.core.coordinator.decision import Decision, Marker, Producer
from barnabas.core.coordinator.loading import Loader
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.records import CoordinatorRecord, Kind, decode
from barnabas.core.coordinator.runtime import ShardRuntime, append_error
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.coordinator.timers import Timers
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.primitives import DecodeError
from barnabas.wire.records.groups import LegacyOffsetCommitKey, OffsetCommitKey, OffsetCommitValue

FAILED = KafkaError(ErrorCode.NOT_COORDINATOR, "no disk")


class Numbers:
    keeps_last_only = True

    kinds = {1: Kind(OffsetCommitKey, OffsetCommitValue)}

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.timers = Timers(lambda: 0)
        self.numbers: TimelineDict[str, int] = TimelineDict(self.timeline)
        self.markers: list[Marker] = []
        self.producers: list[Producer | None] = []
        self.unloaded_with: KafkaError | None = None

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        self.producers.append(producer)
        if record.value is None:
            self.numbers.pop(record.key.group)
        else:
            assert isinstance(record.value, OffsetCommitValue)
            self.numbers[record.key.group] = record.value.offset

    def load(self, entries: Sequence[tuple[bytes, bytes | None]], start: int) -> int:
        return start

    def replay_marker(self, marker: Marker) -> None:
        self.markers.append(marker)

    def loaded(self) -> None:
        return None

    def unloaded(self, error: KafkaError) -> None:
        self.unloaded_with = error


def number(name: str, value: int | None) -> CoordinatorRecord:
    found = None if value is None else OffsetCommitValue(offset=value)
    return CoordinatorRecord(OffsetCommitKey(group=name), found, 3)


def put(name: str, value: int | None, **more: Any) -> Decision[str]:
    return Decision([number(name, value)], f"{name}={value}", **more)


@pytest.fixture
def runtime() -> ShardRuntime[Numbers]:
    return ShardRuntime(Numbers())


def append_all(runtime: ShardRuntime[Numbers], end_offset: int) -> int:
    for batch in runtime.unwritten():
        end_offset += len(batch.records) or 1
        runtime.appended(batch, end_offset)
    return end_offset


def test_records_are_seen_at_once_and_answered_when_committed(runtime: ShardRuntime[Numbers]) -> None:
    answer = runtime.decide(lambda _: put("a", 1))
    assert runtime.shard.numbers.get("a") == 1
    assert runtime.shard.numbers.committed("a") is None
    append_all(runtime, 0)
    assert not answer.is_done
    runtime.committed(1)
    assert answer.result() == "a=1"
    assert runtime.shard.numbers.committed("a") == 1
    assert runtime.timeline.is_committed


def test_decisions_of_one_turn_are_one_batch(runtime: ShardRuntime[Numbers]) -> None:
    told: list[str] = []
    runtime.on_unwritten = lambda: told.append("write")
    answers = [runtime.decide(lambda _, n=n: put("a", n)) for n in range(3)]
    (batch,) = runtime.unwritten()
    assert told == ["write"]
    assert len(batch.records) == 3
    runtime.appended(batch, 3)
    runtime.committed(2)
    assert not any(answer.is_done for answer in answers)
    runtime.committed(3)
    assert [answer.result() for answer in answers] == ["a=0", "a=1", "a=2"]


def test_a_failed_append_never_happened(runtime: ShardRuntime[Numbers]) -> None:
    first = runtime.decide(lambda _: put("a", 1))
    append_all(runtime, 0)
    second = runtime.decide(lambda _: put("a", 2))
    third = runtime.decide(lambda _: put("b", 3))
    reading = runtime.decide(lambda shard: Decision([], shard.numbers["a"]))
    runtime.unwritten()
    runtime.append_failed(FAILED)
    assert [each.error for each in (second, third, reading)] == [FAILED] * 3
    assert dict(runtime.shard.numbers.items()) == {"a": 1}
    assert not first.is_done
    runtime.committed(1)
    assert first.result() == "a=1"


def test_an_answer_without_records_waits_for_what_it_may_rest_on(runtime: ShardRuntime[Numbers]) -> None:
    assert runtime.decide(lambda _: Decision([], "nothing to wait for")).is_done
    runtime.decide(lambda _: put("a", 1))
    answer = runtime.decide(lambda shard: Decision([], shard.numbers["a"]))
    append_all(runtime, 0)
    assert not answer.is_done
    runtime.committed(1)
    assert answer.result() == 1


def test_losing_the_leadership_answers_everybody(runtime: ShardRuntime[Numbers]) -> None:
    written = runtime.decide(lambda _: put("a", 1))
    append_all(runtime, 0)
    waiting = runtime.decide(lambda _: put("b", 1))
    runtime.lost(FAILED)
    assert written.error is waiting.error is runtime.shard.unloaded_with is FAILED
    assert not runtime.shard.numbers


def test_the_shard_is_told_before_the_client(runtime: ShardRuntime[Numbers]) -> None:
    later: Promise[str] = Promise()
    fates: list[KafkaError | None] = []

    def decided(error: KafkaError | None) -> None:
        fates.append(error)
        later.set("failed" if error else "done")

    answers = []
    for _ in range(2):
        answers.append(runtime.decide(lambda _: Decision([number("a", 1)], later, decided)))
    runtime.unwritten()
    runtime.append_failed(FAILED)
    assert fates == [FAILED, FAILED]
    assert [each.result() for each in answers] == ["failed", "failed"]


def test_a_refused_operation_changes_nothing(runtime: ShardRuntime[Numbers]) -> None:
    def refuse(_: Numbers) -> Decision[str]:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    error = runtime.decide(refuse).error
    assert error is not None
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert runtime.unwritten() == []


def test_transactions_and_markers_are_batches_of_their_own(runtime: ShardRuntime[Numbers]) -> None:
    producer, marker = Producer(7, 0), Marker(7, 0, 3, True)
    runtime.decide(lambda _: put("a", 1))
    runtime.decide(lambda _: put("b", 2, producer=producer))
    runtime.decide(lambda _: Decision([], "ended", marker=marker))
    runtime.decide(lambda _: put("c", 3))
    batches = runtime.unwritten()
    assert [(batch.producer, batch.marker, len(batch.records)) for batch in batches] == [
        (None, None, 1),
        (producer, None, 1),
        (None, marker, 0),
        (None, None, 1),
    ]
    assert runtime.shard.markers == [marker]
    assert runtime.shard.producers == [None, producer, None]


def test_many_records_that_need_not_stay_together_are_spread(runtime: ShardRuntime[Numbers]) -> None:
    records = [number(f"{index:0900}", 1) for index in range(1000)]
    answer = runtime.decide(lambda _: Decision(records, "all", atomic=False))
    batches = runtime.unwritten()
    assert [len(batch.records) for batch in batches] == [500, 500]
    runtime.appended(batches[0], 500)
    runtime.append_failed(FAILED)
    assert answer.error is FAILED
    assert len(runtime.shard.numbers) == 500


def test_the_latest_value_of_each_key_is_loaded(runtime: ShardRuntime[Numbers]) -> None:
    log = build_batch([Record(0, 0, *number("a", 1).encode()), Record(1, 0, *number("b", 1).encode())])
    log += build_batch([Record(2, 0, *number("a", 2).encode()), Record(3, 0, *number("b", None).encode())])
    log += build_batch([Record(4, 0, *number("a", 3).encode())])
    loader = Loader(runtime, 0)
    for _ in (*loader.feed(bytes(log), high_watermark=4), *loader.finish()):
        pass
    assert loader.next_offset == 5
    assert dict(runtime.shard.numbers.items()) == {"a": 3}
    assert dict(runtime.shard.numbers.committed_items()) == {"a": 2}
    runtime.committed(5)
    assert runtime.shard.numbers.committed("a") == 3


def test_records_of_transactions_and_their_markers_are_loaded_in_order(runtime: ShardRuntime[Numbers]) -> None:
    log = build_batch([Record(0, 0, *number("a", 1).encode())], producer_id=7, producer_epoch=1, transactional=True)
    marker = Record(1, 0, b"\0\0\0\1", b"\0\0\0\0\0\5")
    log += build_batch([marker], producer_id=7, producer_epoch=1, transactional=True, control=True)
    for _ in Loader(runtime, 0).feed(bytes(log), high_watermark=2):
        pass
    assert runtime.shard.producers == [Producer(7, 1)]
    assert runtime.shard.markers == [Marker(7, 1, 5, True)]


def test_records_of_later_versions_are_left_alone_or_refused() -> None:
    key, value = number("a", 1).encode()
    assert decode(Numbers.kinds, key, value) == number("a", 1)
    assert decode(Numbers.kinds, key, None) == CoordinatorRecord(OffsetCommitKey(group="a"), None)
    assert decode(Numbers.kinds, *CoordinatorRecord(LegacyOffsetCommitKey(group="a"), None).encode()) is None
    with pytest.raises(DecodeError, match="version 9"):
        decode(Numbers.kinds, key, b"\0\x09" + (value or b"")[2:])
    with pytest.raises(DecodeError):
        decode(Numbers.kinds, b"", None)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_failed_append_is_told_in_the_coordinators_words(code: ErrorCode, told: ErrorCode) -> None:
    assert append_error(KafkaError(code)).code is told
