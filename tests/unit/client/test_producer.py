"""A producer between a program and a broker that says all sorts of things."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.batch_sender import BatchSender
from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable, ClientError, Refused, TimedOut
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.wire.batch import Record, build_batch, decode_records, read_header
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from barnabas.wire.uuids import Uuid
from tests.support.waiting import wait_until

TOPIC_ID = Uuid(b"0123456789abcdef")
WAIT_S = 10.0


class Log:
    """A broker of one node and one topic that keeps what it is sent; `codes` are the errors it gives first."""

    def __init__(self, scripted: Callable[..., Any]) -> None:
        self.codes: list[int | None] = []
        self.batches: list[tuple[int, int, int, list[bytes | None]]] = []  # partition, epoch, sequence, values
        self.partitions = 1
        self.topic_error = 0
        self.hold = threading.Event()
        self.hold.set()
        self.broker = scripted({0: self.produce, 3: self.metadata, 22: self.init})

    def init(self, request: Any, version: int) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=7, producer_epoch=0)

    def metadata(self, request: Any, version: int) -> MetadataResponse:
        partitions = [MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(self.partitions)]
        topics = [
            MetadataResponseTopic(
                name=topic.name,
                topic_id=TOPIC_ID,
                error_code=self.topic_error,
                partitions=[] if self.topic_error else partitions,
            )
            for topic in request.topics
        ]
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=topics)

    def produce(self, request: Any, version: int) -> ProduceResponse | None:
        self.hold.wait(WAIT_S)
        code = self.codes.pop(0) if self.codes else 0
        if code is None:
            return None
        results = []
        for data in request.topic_data[0].partition_data:
            header = read_header(data.records)
            values = [record.value for record in decode_records(data.records)]
            if not code:
                self.batches.append((data.index, header.producer_epoch, header.base_sequence, values))
            results.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=100))
        if request.acks == 0:
            return b""  # type: ignore[return-value]
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=results)])

    def producer(self, **properties: str) -> Producer:
        return Producer(self.broker.settings(**{"linger_ms": "0", "delivery_timeout_ms": "60000", **properties}))

    @property
    def values(self) -> list[bytes | None]:
        return [value for *_, values in self.batches for value in values]


@pytest.fixture
def kept(scripted: Callable[..., Any]) -> Iterator[Log]:
    log = Log(scripted)
    yield log
    log.hold.set()


def test_a_record_is_sent_and_its_place_is_told(kept: Log) -> None:
    told: list[Any] = []
    with kept.producer() as producer:
        sent = producer.send(
            "t", b"v", key=b"k", headers=[("h", b"x")], timestamp=5, callback=lambda *got: told.append(got)
        )
        assert sent.result(WAIT_S) == ("t", 0, 100, 5)
    assert told == [(("t", 0, 100, 5), None)]
    assert kept.batches == [(0, 0, 0, [b"v"])]
    assert kept.broker.seen[-1] == ("produce", 13)


@pytest.mark.parametrize("code", [6, 3, 19, None])
def test_what_may_pass_is_tried_again(kept: Log, code: int | None) -> None:
    kept.codes = [code, code]
    with kept.producer() as producer:
        producer.send("t", b"v").result(WAIT_S)
    assert kept.batches == [(0, 0, 0, [b"v"])]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None])
def test_ready_batches_are_sent_again_at_once_although_the_broker_is_slow_to_name_the_leader(
    kept: Log, code: int | None
) -> None:
    """Asking takes longer than the pause before the next try, which is over when it is looked at again."""
    kept.codes = [code]
    answered = kept.metadata

    def slowly(request: Any, version: int) -> MetadataResponse:
        time.sleep(0.05)
        return answered(request, version)

    kept.broker.script[3] = slowly
    began = time.monotonic()
    with Cluster(kept.broker.settings()) as cluster:
        sender = BatchSender(cluster)
        for number in range(3):
            sender.send("t", 0, build_batch([Record(0, 5, None, b"%d" % number)]))
        sender.flush()
        sender.close()
    assert kept.batches == [(0, 0, number, [b"%d" % number]) for number in range(3)]
    assert time.monotonic() - began < WAIT_S


def test_what_will_not_pass_is_told_and_the_rest_goes_on(kept: Log) -> None:
    kept.codes = [ErrorCode.MESSAGE_TOO_LARGE]
    with kept.producer() as producer:
        first = producer.send("t", b"large")
        with pytest.raises(
            Refused,
            match=r"^1 records for t-0 were refused: a batch of \d+ bytes is larger than the topic's max\.message",
        ):
            first.result(WAIT_S)
        producer.send("t", b"next").result(WAIT_S)
    assert kept.batches == [(0, 1, 0, [b"next"])], "the hole in the sequences is closed by a new epoch"


def test_a_broker_that_forgot_the_producer_is_written_to_in_a_new_epoch(kept: Log) -> None:
    with kept.producer() as producer:
        producer.send("t", b"a").result(WAIT_S)
        kept.codes = [ErrorCode.UNKNOWN_PRODUCER_ID]
        producer.send("t", b"b").result(WAIT_S)
        kept.codes = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        producer.send("t", b"c").result(WAIT_S)
    assert kept.batches == [(0, 0, 0, [b"a"]), (0, 1, 0, [b"b"]), (0, 2, 0, [b"c"])]


def test_a_duplicate_has_arrived_already(kept: Log) -> None:
    kept.codes = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    with kept.producer() as producer:
        producer.send("t", b"a").result(WAIT_S)


def test_batches_in_flight_come_back_in_order_when_the_connection_breaks(kept: Log) -> None:
    kept.hold.clear()
    with kept.producer(batch_size="1") as producer:
        sent = [producer.send("t", b"%d" % number) for number in range(12)]
        deadline = time.monotonic() + WAIT_S
        while kept.broker.seen.count(("produce", 13)) < 1:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        kept.codes = [0, None]
        kept.hold.set()
        for each in sent:
            each.result(WAIT_S)
    fresh = list(dict.fromkeys((epoch, sequence) for _, epoch, sequence, _ in kept.batches))
    assert fresh == [(0, number) for number in range(12)]
    assert list(dict.fromkeys(kept.values)) == [b"%d" % number for number in range(12)]


class Forgetful(Log):
    """Knows only the last batch of a producer, as a broker does that was killed; loses connections now and then."""

    last: tuple[int, int] = (-1, -1)  # first and last sequence
    lose = 0

    def produce(self, request: Any, version: int) -> Any:
        self.hold.wait(WAIT_S)
        (data,) = request.topic_data[0].partition_data
        header = read_header(data.records)
        span = (header.base_sequence, header.last_sequence)
        code = 0
        if header.base_sequence == self.last[1] + 1:
            self.last = span
            values = [record.value for record in decode_records(data.records)]
            self.batches.append((data.index, header.producer_epoch, header.base_sequence, values))
        elif span != self.last:
            code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.lose:
            self.lose -= 1
            return b"" if self.lose else None
        result = PartitionProduceResponse(index=data.index, error_code=code, base_offset=100)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[result])])


@pytest.mark.parametrize("written", [1, 2, 4, 5])
def test_batches_that_were_written_before_the_broker_was_killed_are_not_written_again(
    scripted: Callable[..., Any], written: int
) -> None:
    log = Forgetful(scripted)
    log.hold.clear()
    log.lose = written  # so many are written, none is answered, and the connection ends
    with log.producer(batch_size="1") as producer:
        sent = [producer.send("t", b"%d" % number) for number in range(12)]
        deadline = time.monotonic() + WAIT_S
        while log.broker.seen.count(("produce", 13)) < 1:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        log.hold.set()
        for each in sent:
            each.result(WAIT_S)
    assert log.values == [b"%d" % number for number in range(12)]
    assert {epoch for _, epoch, _, _ in log.batches} == {0}


def test_records_that_nobody_takes_in_time_fail(kept: Log) -> None:
    kept.codes = [6] * 10_000
    with kept.producer(request_timeout_ms="50", delivery_timeout_ms="150") as producer:
        sent = producer.send("t", b"v")
        with pytest.raises(TimedOut, match=r"^1 records for t-0 were not taken within 150 ms: NOT_LEADER_OR_FOLLOWER$"):
            sent.result(WAIT_S)


def test_a_broker_that_does_not_answer_is_left_and_asked_again(kept: Log) -> None:
    kept.hold.clear()
    with kept.producer(request_timeout_ms="100") as producer:
        sent = producer.send("t", b"v")
        deadline = time.monotonic() + WAIT_S
        while kept.broker.seen.count(("produce", 13)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        kept.hold.set()
        sent.result(WAIT_S)
    assert {(epoch, sequence) for _, epoch, sequence, _ in kept.batches} == {(0, 0)}, (
        "the broker can tell it is the same"
    )


def test_a_full_buffer_holds_the_sender_back_and_then_gives_up(kept: Log) -> None:
    kept.hold.clear()
    with kept.producer(batch_size="100", buffer_memory="1000", max_block_ms="50", linger_ms="1000") as producer:
        with pytest.raises(TimedOut, match=r"^The buffer of 1000 bytes \(buffer\.memory\) stayed full for 50 ms\.$"):
            producer.send_many("t", [b"x" * 90] * 100)
        kept.hold.set()
        producer.flush(WAIT_S)
        producer.send("t", b"last").result(WAIT_S)


def test_a_topic_that_does_not_come_is_waited_for_and_then_named(kept: Log) -> None:
    kept.topic_error = 3
    with (
        kept.producer(max_block_ms="50") as producer,
        pytest.raises(TimedOut, match=r"^Topic t was not there within 50 ms \(UNKNOWN_TOPIC_OR_PARTITION\)\.$"),
    ):
        producer.send("t", b"v")


def test_a_topic_that_appears_while_it_is_waited_for_is_used(kept: Log) -> None:
    kept.topic_error = 3
    with kept.producer() as producer:
        threading.Timer(0.05, lambda: setattr(kept, "topic_error", 0)).start()
        producer.send("t", b"v").result(WAIT_S)


def test_a_topic_that_is_refused_is_said_so_at_once(kept: Log) -> None:
    kept.topic_error = 29
    with kept.producer() as producer, pytest.raises(Refused, match="Nothing can be sent to topic t") as raised:
        producer.send("t", b"v")
    assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_topic_that_is_gone_is_not_asked_for_over_and_over(kept: Log) -> None:
    with kept.producer(metadata_max_age_ms="20") as producer:
        producer.send("t", b"v").result(WAIT_S)
        kept.topic_error = 3
        producer._sender._metadata_at = 0
        deadline = time.monotonic() + WAIT_S
        while "t" in producer._sender.topics:
            assert time.monotonic() < deadline
            with producer._changed:
                producer._sender.wake()
            time.sleep(0.005)
        before = len(kept.broker.seen)
        with producer._changed:
            producer._sender.wake()
        time.sleep(0.05)
        assert len(kept.broker.seen) - before <= 1


def test_a_partition_is_looked_for_once(kept: Log) -> None:
    with kept.producer() as producer:
        producer.send("t", b"v", partition=0).result(WAIT_S)
        with pytest.raises(Refused, match="Topic t has no partition 3; it has 1 of them"):
            producer.send("t", b"v", partition=3)
        kept.partitions = 4
        producer.send("t", b"v", partition=3).result(WAIT_S)
    assert kept.batches[-1][0] == 3


def test_a_record_that_is_too_large_is_refused_before_it_is_sent(kept: Log) -> None:
    with kept.producer(max_request_size="1000") as producer:
        with pytest.raises(Refused, match=r"takes 1082 bytes, and max\.request\.size is 1000 \(MESSAGE_TOO_LARGE\)$"):
            producer.send("t", b"x" * 1000)
        with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
            producer.send_many("t", [b"x", b"x" * 1000])


def test_a_broker_that_is_not_there_is_named_at_once() -> None:
    settings = ClientSettings.from_properties({}, bootstrap_servers="127.0.0.1:1")
    with Producer(settings) as producer, pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1 cannot be reached"):
        producer.send("t", b"v")


def test_without_acks_nothing_is_waited_for(kept: Log) -> None:
    with kept.producer(acks="0") as producer:
        assert producer.send("t", b"v").result(WAIT_S).offset == -1
        producer.flush(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while not kept.batches:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert kept.batches == [(0, -1, -1, [b"v"])]


def test_many_records_fill_batches_and_are_told_of_batch_by_batch(kept: Log) -> None:
    told: list[tuple[int, ClientError | None]] = []
    with kept.producer(batch_size="400", linger_ms="10") as producer:
        producer.send_many(
            "t", [b"%030d" % number for number in range(100)], callback=lambda n, _, e: told.append((n, e))
        )
        producer.flush(WAIT_S)
    assert kept.values == [b"%030d" % number for number in range(100)]
    assert sum(count for count, _ in told) == 100
    assert len(told) == len(kept.batches) > 8


def test_keyless_records_go_on_to_another_partition_when_a_batch_is_full(kept: Log) -> None:
    kept.partitions = 3
    with kept.producer(batch_size="500", linger_ms="50") as producer:
        for number in range(1000):
            producer.send("t", b"%030d" % number)
        producer.send("t", b"keyed", key=b"21")
    assert {partition for partition, *_ in kept.batches} == {0, 1, 2}, "of about 90 batches"
    sizes = [len(values) for *_, values in kept.batches]
    assert sum(sizes) == 1001
    assert sum(size > 5 for size in sizes) >= 5, "batches are full before another partition's turn"
    keyed = [partition for partition, _, _, values in kept.batches if b"keyed" in values]
    assert keyed == [(-973932308 & 0x7FFFFFFF) % 3]


def test_closing_delivers_and_then_refuses(kept: Log) -> None:
    producer = kept.producer(linger_ms="50000")
    sent = producer.send("t", b"v")
    producer.close()
    assert sent.done
    with pytest.raises(ClientError, match=r"^The producer is closed\.$"):
        producer.send("t", b"v")


def test_closing_in_a_given_time_fails_what_is_left(kept: Log) -> None:
    kept.hold.clear()
    producer = kept.producer(request_timeout_ms="200")
    sent = producer.send("t", b"v")
    with pytest.raises(TimedOut, match=r"Not everything was delivered within 0\.05 s"):
        producer.close(0.05)
    with pytest.raises(TimedOut, match="closed before the record was delivered"):
        sent.result(WAIT_S)


def test_a_callback_that_raises_does_not_stop_the_producer(kept: Log, caplog: pytest.LogCaptureFixture) -> None:
    with kept.producer() as producer:
        producer.send("t", b"a", callback=lambda *_: 1 / 0)
        producer.flush(WAIT_S)
        producer.send("t", b"b").result(WAIT_S)
    assert "a delivery callback raised an error" in caplog.text


def test_a_callback_that_raises_takes_nothing_from_the_other_records_of_its_batch(kept: Log) -> None:
    told: list[str] = []
    with kept.producer(linger_ms="200") as producer:
        producer.send("t", b"a", callback=lambda *_: told.append("a"))
        producer.send("t", b"b", callback=lambda *_: 1 / 0)
        producer.send("t", b"c", callback=lambda *_: told.append("c"))
        producer.flush(WAIT_S)
        wait_until(lambda: len(told) == 2, "both are told", WAIT_S)
    assert told == ["a", "c"]


def test_a_producer_that_has_nothing_to_send_yet_sleeps(kept: Log) -> None:
    with kept.producer() as producer:
        assert len(producer.partitions_for("t").partitions) == 1
        sender = producer._sender
        wait_until(lambda: sender.asleep and not sender.dirty, "the thread sleeps", WAIT_S)
