"""Batches keep their order and their sequences, whatever comes back."""

from __future__ import annotations

import time

import pytest

from barnabas.client.accumulator import Accumulator, ProducerBatch
from barnabas.client.errors import TimedOut
from barnabas.client.producer_settings import ProducerSettings
from barnabas.wire.batch import batch_crc, decode_records, read_header
from barnabas.wire.compression import Compression

T0 = ("t", 0)
T1 = ("t", 1)


def accumulator(**settings: object) -> Accumulator:
    made = Accumulator(ProducerSettings(**{"linger_ms": 0, **settings}))  # type: ignore[arg-type]
    made.producer = (7, 0)
    return made


def batch(made: Accumulator, count: int = 1, partition: tuple[str, int] = T0) -> ProducerBatch:
    added = made.new_batch(made.queue(partition), 100)
    for index in range(count):
        added.append(index, 1000 + index, None, b"%d" % index, [])
    added.count = count
    return added


def leaving(made: Accumulator, node_id: int = 1) -> list[ProducerBatch]:
    return [made.take(queue, node_id) for queue in made.ready(time.monotonic())]


def sequences(batches: list[ProducerBatch]) -> list[tuple[tuple[int, int], int]]:
    return [(each.producer, each.base_sequence) for each in batches]


def test_batches_leave_in_order_and_are_numbered_by_their_records() -> None:
    made = accumulator()
    first, second, other = batch(made, 3), batch(made, 2), batch(made, 4, T1)
    assert leaving(made) == [first, other]
    assert leaving(made) == [second]
    assert sequences([first, second, other]) == [((7, 0), 0), ((7, 0), 3), ((7, 0), 0)]
    made.complete(first, 10, -1)
    assert first.metadata(2, 1002) == ("t", 0, 12, 1002)
    made.complete(second, 13, 77)
    assert second.metadata(0, 1000).timestamp == 77
    made.complete(other, 0, -1)
    assert not made.incomplete
    assert made.reserved == 0
    assert leaving(made) == []


def test_an_open_batch_lingers_unless_somebody_is_in_a_hurry() -> None:
    made = accumulator(linger_ms=50)
    lingering = batch(made)
    assert leaving(made) == []
    assert made.wake_up_at(lingering.created_at) == pytest.approx(lingering.created_at + 0.05)
    made.hurry += 1
    assert leaving(made) == [lingering]


def test_lost_batches_go_back_to_their_places_and_leave_one_by_one() -> None:
    made = accumulator()
    first, second, third = batch(made), batch(made), batch(made)
    assert leaving(made) + leaving(made) == [first, second]
    made.retry(second, 0.0)
    made.retry(first, 0.0)
    assert leaving(made) == [first]
    assert leaving(made) == [], "a batch that is sent again goes alone"
    made.complete(first, 0, -1)
    assert leaving(made) == [second]
    made.complete(second, 1, -1)
    assert leaving(made) == [third]
    assert sequences([first, second, third]) == [((7, 0), 0), ((7, 0), 1), ((7, 0), 2)]


def test_a_retry_is_not_overtaken_by_what_was_sent_after_it() -> None:
    made = accumulator()
    first, second, third = batch(made), batch(made), batch(made)
    leaving(made)
    leaving(made)
    made.retry(first, 0.0)
    assert leaving(made) == [], "the second is still on its way"
    made.retry(second, 0.0)  # out of order, says the broker
    assert leaving(made) == [first]
    made.complete(first, 0, -1)
    assert leaving(made) == [second]
    assert third.attempts == 0


def test_a_retry_waits_for_its_time() -> None:
    made = accumulator()
    first = batch(made)
    leaving(made)
    later = time.monotonic() + 60
    made.retry(first, later)
    assert leaving(made) == []
    assert made.wake_up_at(time.monotonic()) == later


def test_a_hole_in_the_sequences_is_closed_by_a_new_epoch_when_nothing_is_in_flight() -> None:
    made = accumulator()
    first, second, third = batch(made, 2), batch(made, 3), batch(made, 1)
    assert leaving(made) + leaving(made) == [first, second]
    made.fail(first, TimedOut("too late"))
    assert leaving(made) == [], "the second may still arrive"
    made.retry(second, 0.0)
    assert leaving(made) == [second]
    made.complete(second, 0, -1)
    assert leaving(made) == [third]
    assert sequences([second, third]) == [((7, 1), 0), ((7, 1), 3)]


def test_a_batch_that_fails_before_it_was_sent_leaves_no_hole() -> None:
    made = accumulator()
    first, second = batch(made), batch(made)
    made.fail(first, TimedOut("too late"))
    assert leaving(made) == [second]
    assert sequences([second]) == [((7, 0), 0)]


def test_sequences_begin_again_after_the_last() -> None:
    made = accumulator()
    made.queue(T0).next_sequence = 2**31 - 1
    first, second = batch(made, 2), batch(made)
    leaving(made)
    leaving(made)
    assert [first.base_sequence, second.base_sequence] == [2**31 - 1, 1]


def test_time_is_over_for_open_and_closed_batches_alike() -> None:
    made = accumulator(delivery_timeout_ms=1000, linger_ms=1)
    first, second = batch(made), batch(made)
    third = batch(made, partition=T1)
    assert made.expired(first.created_at + 0.9) == []
    assert made.expired(third.created_at + 1.1) == [first, second, third]


@pytest.mark.parametrize("codec", list(Compression))
def test_what_is_sealed_can_be_read_and_sealed_anew_for_another_epoch(codec: Compression) -> None:
    made = accumulator(compression=codec.name.lower())
    added = batch(made, 3)
    leaving(made)
    data = added.seal(codec, None)
    assert [record.value for record in decode_records(data)] == [b"0", b"1", b"2"]
    assert (read_header(data).producer_id, read_header(data).base_sequence) == (7, 0)
    added.producer, added.base_sequence = (7, 1), 5
    again = added.seal(codec, None)
    header = read_header(again)
    assert (header.producer_epoch, header.base_sequence, header.compression) == (1, 5, codec)
    assert header.crc == batch_crc(again, 0, len(again))


def test_batches_that_compress_well_are_made_larger() -> None:
    made = accumulator(compression="zstd", batch_size=1000)
    assert made.reservation(10) == 1000
    for _ in range(20):
        added = made.new_batch(made.queue(T0), 10)
        added.append(0, 1000, None, b"x" * 5000, [])
        added.count = 1
        (taken,) = leaving(made)
        taken.seal(Compression.ZSTD, None)
        made.complete(taken, 0, -1)
    assert made.reservation(10) > 10_000
