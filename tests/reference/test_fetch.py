"""Fetch: offsets, limits, sessions, ids and epochs."""

import time
from typing import Any

import pytest

from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from barnabas.wire.uuids import ZERO_UUID, Uuid
from tests.support.reference_batches import crafted_batch

UNKNOWN_ID = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAg")
BATCH_BYTES = len(crafted_batch([(b"key-0", b"value")]))


def part(offset: int = 0, *, partition: int = 0, max_bytes: int = 1 << 20, **rest: Any) -> FetchPartition:
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **rest)


def fetch(topic: str, *parts: FetchPartition, id: Uuid = ZERO_UUID, **rest: Any) -> FetchRequest:
    settings = {"max_wait_ms": 50, "min_bytes": 1, "max_bytes": 1 << 20, **rest}
    topics = [FetchTopic(topic=topic, topic_id=id, partitions=list(parts or [part()]))]
    return FetchRequest(topics=topics, **settings)


def filled(both: Any, records: int = 10, **configs: Any) -> str:
    topic: str = both.topic(**configs)
    both.fill(topic, records)
    return topic


@pytest.mark.parametrize("version", range(4, 13))
def test_records_by_name_in_every_version(both: Any, version: int) -> None:
    both.same(fetch(filled(both, 3)), version)


@pytest.mark.parametrize("version", range(13, 19))
def test_records_by_id_in_every_version(both: Any, version: int) -> None:
    topic = filled(both, 3)
    both.same(lambda side: fetch("", id=side.topic_id(topic)), version)


@pytest.mark.parametrize("version", [4, 7, 12])
def test_unknown_topics_and_partitions(both: Any, version: int) -> None:
    both.same(fetch("not-there"), version)
    both.same(fetch(both.topic(), part(partition=7)), version)
    both.same(fetch(both.topic(), part(partition=-1)), version)


@pytest.mark.parametrize("id", [UNKNOWN_ID, ZERO_UUID])
@pytest.mark.parametrize("version", [13, 16, 18])
def test_unknown_and_zero_ids(both: Any, id: Uuid, version: int) -> None:
    both.same(fetch("", id=id), version)


def test_an_unknown_id_beside_a_known_one(both: Any) -> None:
    topic = filled(both, 2)

    def asked(side: Any) -> FetchRequest:
        request = fetch("", id=side.topic_id(topic))
        request.topics.append(FetchTopic(topic_id=UNKNOWN_ID, partitions=[part()]))
        return request

    both.same(asked, 16)


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize("offset", [-1, 0, 9, 10, 11, 1000, -5])
def test_offsets_inside_and_outside(both: Any, version: int, offset: int) -> None:
    both.same(fetch(filled(both), part(offset)), version)


def test_below_the_log_start(both: Any) -> None:
    topic = filled(both)
    both.delete_records(topic, 5)
    for offset in (4, 5, 10, 11):
        both.same(fetch(topic, part(offset)), 12)


def test_an_offset_inside_a_batch_gives_the_whole_batch(both: Any) -> None:
    topic = both.topic()
    both.produce(topic, crafted_batch([(b"k", b"v")] * 5))
    both.produce(topic, crafted_batch([(b"k", b"v")] * 5))
    for offset in (0, 3, 4, 5, 9):
        both.same(fetch(topic, part(offset)), 11)


@pytest.mark.parametrize(
    "max_bytes", [0, 1, BATCH_BYTES - 1, BATCH_BYTES, BATCH_BYTES + 1, 2 * BATCH_BYTES, 3 * BATCH_BYTES - 1, -1]
)
def test_partition_limits(both: Any, max_bytes: int) -> None:
    both.same(fetch(filled(both), part(max_bytes=max_bytes)), 11)


@pytest.mark.parametrize("max_bytes", [0, 1, BATCH_BYTES, 2 * BATCH_BYTES, 3 * BATCH_BYTES - 1, -1])
def test_the_limit_of_the_whole_answer(both: Any, max_bytes: int) -> None:
    both.same(fetch(filled(both), max_bytes=max_bytes), 11)


@pytest.mark.parametrize("max_bytes", [1, BATCH_BYTES, 3 * BATCH_BYTES, 15 * BATCH_BYTES])
def test_the_first_partition_with_data_gets_a_batch_even_above_the_limit(both: Any, max_bytes: int) -> None:
    topic = both.topic(partitions=3)
    for partition in (1, 2):
        both.fill(topic, 10, partition=partition)
    both.same(fetch(topic, *[part(partition=number) for number in range(3)], max_bytes=max_bytes), 11)


def test_an_empty_partition_waits_and_comes_back_empty(both: Any) -> None:
    both.same(fetch(both.topic()), 12)
    both.same(fetch(both.topic(), min_bytes=0, max_wait_ms=10_000), 12)
    both.same(fetch(both.topic(), max_wait_ms=0), 12)
    both.same(fetch(both.topic(), max_wait_ms=-1), 12)


def test_an_error_is_not_waited_on(both: Any) -> None:
    both.same(fetch(filled(both, 1), part(77), max_wait_ms=15_000), 12)


@pytest.mark.parametrize("epoch", [-1, 0, 1, -2, 9])
def test_the_current_leader_epoch_must_agree(both: Any, epoch: int) -> None:
    both.same(fetch(filled(both, 2), part(current_leader_epoch=epoch)), 12)


@pytest.mark.parametrize(("epoch", "offset"), [(0, 0), (0, 2), (0, 3), (1, 2), (5, 2), (-1, 3)])
def test_a_last_fetched_epoch_that_diverges(both: Any, epoch: int, offset: int) -> None:
    both.same(fetch(filled(both, 2), part(offset, last_fetched_epoch=epoch)), 12)


@pytest.mark.parametrize("level", [0, 1])
def test_isolation_levels(both: Any, level: int) -> None:
    both.same(fetch(filled(both, 2), isolation_level=level), 11)


@pytest.mark.parametrize("replica", [0, 1, 5, -2])
def test_fetches_that_claim_to_be_a_replica(both: Any, replica: int) -> None:
    topic = filled(both, 2)
    both.same(fetch(topic, replica_id=replica), 12)


@pytest.mark.parametrize("replica", [1, 5])
def test_newer_fetches_that_claim_to_be_a_replica(both: Any, replica: int) -> None:
    topic = filled(both, 2)
    state = ReplicaState(replica_id=replica, replica_epoch=0)
    both.same(lambda side: fetch("", id=side.topic_id(topic), replica_state=state), 16)


def test_a_partition_twice_in_one_request(both: Any) -> None:
    both.same(fetch(filled(both, 2), part(0), part(1)), 11)


def test_nothing_asked(both: Any) -> None:
    both.same(FetchRequest(max_wait_ms=50, min_bytes=1), 12)


class Session:
    """A fetch session on both servers, whose ids differ."""

    def __init__(self, both: Any, version: int = 12) -> None:
        self.both = both
        self.version = version
        self.ids = {side.name: 0 for side in both.sides}
        self.topic_ids: dict[tuple[str, str], Uuid] = {}

    def topic_id(self, side: Any, topic: str) -> Uuid:
        """Remembered, so that a topic can be asked for after it has gone."""
        if self.version < 13:
            return ZERO_UUID
        if (side.name, topic) not in self.topic_ids:
            self.topic_ids[side.name, topic] = side.topic_id(topic)
        return self.topic_ids[side.name, topic]

    def ask(self, topics: dict[str, list[FetchPartition]], epoch: int, **rest: Any) -> Any:
        """The session's id is filled in per side; the answer of a first request gives it."""
        rest = {"max_wait_ms": 50, "min_bytes": 1, "max_bytes": 1 << 20, **rest}

        def asked(side: Any) -> FetchRequest:
            wanted = [
                FetchTopic(topic=topic, topic_id=self.topic_id(side, topic), partitions=parts)
                for topic, parts in topics.items()
            ]
            return FetchRequest(session_id=self.ids[side.name], session_epoch=epoch, topics=wanted, **rest)

        answer = self.both.same(asked, self.version)
        for side, given in zip(self.both.sides, self.both.answers, strict=True):
            if epoch == 0:
                self.ids[side.name] = given.session_id
        return answer


def test_a_session_reports_only_what_changed(both: Any) -> None:
    first, second = filled(both, 2), filled(both, 2)
    session = Session(both)
    session.ask({first: [part(0)], second: [part(0)]}, 0)
    session.ask({}, 1)
    session.ask({first: [part(2)], second: [part(2)]}, 2)
    session.ask({}, 3)
    both.fill(second, 1)
    session.ask({}, 4)
    session.ask({second: [part(3)]}, 5)


def test_a_session_forgets(both: Any) -> None:
    first, second = filled(both, 2), filled(both, 2)
    session = Session(both)
    session.ask({first: [part(0)], second: [part(0)]}, 0)
    session.ask({}, 1, forgotten_topics_data=[ForgottenTopic(topic=first, partitions=[0])])
    session.ask({}, 2, forgotten_topics_data=[ForgottenTopic(topic="not-there", partitions=[0, 7])])
    session.ask({}, 3, forgotten_topics_data=[ForgottenTopic(topic=second, partitions=[0])])


def test_session_epochs_must_follow(both: Any) -> None:
    topic = filled(both, 2)
    session = Session(both)
    session.ask({topic: [part(0)]}, 0)
    session.ask({}, 1)
    session.ask({}, 3)
    session.ask({}, 1)
    session.ask({}, 2)


def test_an_unknown_session(both: Any) -> None:
    both.same(fetch(filled(both, 1), session_id=123_456_789, session_epoch=1), 12)
    both.same(fetch(filled(both, 1), session_id=123_456_789, session_epoch=0), 12)
    both.same(fetch(filled(both, 1), session_id=123_456_789, session_epoch=-1), 12)
    both.same(fetch(filled(both, 1), session_id=0, session_epoch=5), 12)
    both.same(fetch(filled(both, 1), session_id=0, session_epoch=-1), 12)


def test_a_session_is_closed(both: Any) -> None:
    topic = filled(both, 2)
    session = Session(both)
    session.ask({topic: [part(0)]}, 0)
    session.ask({topic: [part(0)]}, -1)
    session.ask({}, 1)


def test_a_session_with_errors_inside(both: Any) -> None:
    topic = filled(both, 2)
    session = Session(both)
    session.ask({topic: [part(0), part(0, partition=7)], "not-there": [part(0)]}, 0)
    session.ask({}, 1)
    session.ask({topic: [part(99)]}, 2)
    session.ask({}, 3)


def test_a_session_sees_a_moved_log_start(both: Any) -> None:
    topic = filled(both, 5)
    session = Session(both)
    session.ask({topic: [part(5)]}, 0)
    session.ask({}, 1)
    both.delete_records(topic, 3)
    session.ask({}, 2)
    session.ask({}, 3)


def test_a_session_without_partitions_is_opened_too(both: Any) -> None:
    both.same(FetchRequest(max_wait_ms=50, min_bytes=1, session_id=0, session_epoch=0), 12)


def test_a_deleted_topic_in_a_session_by_name(both: Any) -> None:
    topic = filled(both, 2)
    session = Session(both)
    session.ask({topic: [part(2)]}, 0)
    both.delete_topic(topic)
    session.ask({}, 1)


@pytest.mark.parametrize("version", [13, 16, 18])
def test_a_session_by_id(both: Any, version: int) -> None:
    first, second = filled(both, 2), filled(both, 2)
    session = Session(both, version)
    session.ask({first: [part(0)], second: [part(2)]}, 0)
    session.ask({first: [part(2)]}, 1)
    both.fill(second, 1)
    session.ask({}, 2)
    session.ask({second: [part(3), part(0, partition=4)]}, 3)
    session.ask({}, 4)


def test_a_deleted_topic_in_a_session_by_id(both: Any) -> None:
    topic = filled(both, 2)
    session = Session(both, 16)
    session.ask({topic: [part(2)]}, 0)
    both.delete_topic(topic)
    session.ask({}, 1)
    session.ask({topic: [part(2)]}, 2)


def test_a_session_by_name_is_not_continued_by_id(both: Any) -> None:
    topic = filled(both, 2)
    session = Session(both)
    session.ask({topic: [part(0)]}, 0)
    session.version = 13
    session.ask({}, 1)


def test_the_isolation_level_may_change_within_a_session(both: Any) -> None:
    topic = filled(both, 2)
    session = Session(both)
    session.ask({topic: [part(0)]}, 0, isolation_level=1)
    session.ask({}, 1, isolation_level=0)
    session.ask({topic: [part(2)]}, 2, isolation_level=1)
    session.ask({}, 3, isolation_level=0)


def test_an_unknown_isolation_level(both: Any) -> None:
    topic = filled(both, 1)
    both.same(lambda side: fetch("", id=side.topic_id(topic), isolation_level=7), 13)


def test_records_compressed_with_zstd_are_given_to_every_version(both: Any) -> None:
    topic = filled(both, 2, compression_type="zstd")
    for version in (4, 9, 10, 12):
        both.same(fetch(topic), version, ignoring={"records"})


def test_partitions_with_data_are_served_in_turn(both: Any) -> None:
    topic = both.topic(partitions=3)
    for partition in range(3):
        both.fill(topic, 4, partition=partition)
    session = Session(both)
    session.ask({topic: [part(partition=number) for number in range(3)]}, 0, max_bytes=BATCH_BYTES)
    for epoch in range(1, 6):
        session.ask({}, epoch, max_bytes=BATCH_BYTES)


def test_a_partition_that_is_not_there_does_not_shorten_the_wait(both: Any) -> None:
    topic = both.topic()
    began = time.monotonic()
    both.same(fetch(topic, part(), part(partition=7), max_wait_ms=300), 12)
    assert time.monotonic() - began >= 0.3 * len(both.sides) - 0.05
