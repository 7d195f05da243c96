"""Produce: what a batch must be like, who is refused with which code, and sequences of idempotent producers."""

import time
from typing import Any

import pytest

from barnabas.wire.compression import Compression, compress
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.uuids import Uuid
from tests.support.reference_batches import crafted_batch, encoded_records

UNKNOWN_ID = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAg")
ONE = crafted_batch()
HOUR_MS = 3_600_000


def produce(topic: str, records: bytes | None, *, acks: int = 1, partition: int = 0) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(acks=acks, timeout_ms=15_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def fetch(topic: str) -> FetchRequest:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=partitions)])


@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_appended_in_every_version(both: Any, version: int) -> None:
    topic = both.topic()
    both.same(produce(topic, ONE), version)
    both.same(produce(topic, crafted_batch([(None, b"v")] * 3), acks=-1), version)
    both.same(fetch(topic), 11)


def test_by_topic_id(both: Any) -> None:
    topic = both.topic()

    def asked(side: Any) -> ProduceRequest:
        data = [TopicProduceData(topic_id=side.topic_id(topic), partition_data=[PartitionProduceData(records=ONE)])]
        return ProduceRequest(acks=1, timeout_ms=15_000, topic_data=data)

    both.same(asked, 13)


def test_an_unknown_topic_id(both: Any) -> None:
    data = [TopicProduceData(topic_id=UNKNOWN_ID, partition_data=[PartitionProduceData(records=ONE)])]
    both.same(ProduceRequest(acks=1, timeout_ms=15_000, topic_data=data), 13)


@pytest.mark.parametrize("acks", [2, -2, 100])
@pytest.mark.parametrize("version", [3, 9, 12])
def test_acks_other_than_the_three_are_refused(both: Any, acks: int, version: int) -> None:
    both.same(produce(both.topic(), ONE, acks=acks), version)


def test_after_acks_0_the_connection_still_answers(both: Any) -> None:
    topic = both.topic()
    for side in both.sides:
        side.send(produce(topic, ONE, acks=0), 9)
    both.same(produce(topic, ONE), 9)


def test_unknown_topics_and_partitions(both: Any) -> None:
    both.same(produce("not-there", ONE), 9)
    both.same(produce("a/b", ONE), 9)
    both.same(produce("", ONE), 9)
    both.same(produce(both.topic(), ONE, partition=7), 9)
    both.same(produce(both.topic(), ONE, partition=-1), 9)


@pytest.mark.parametrize("version", [3, 8, 9])
@pytest.mark.parametrize(
    "records",
    [
        pytest.param(crafted_batch(crc=12345), id="bad crc"),
        pytest.param(crafted_batch(magic=0), id="magic 0"),
        pytest.param(crafted_batch(magic=1), id="magic 1"),
        pytest.param(crafted_batch(magic=3), id="magic 3"),
        pytest.param(crafted_batch(count=2), id="count above the records"),
        pytest.param(crafted_batch([(b"k", b"v")] * 2, count=1), id="count below the records"),
        pytest.param(crafted_batch(last_offset_delta=5), id="last offset delta too large"),
        pytest.param(crafted_batch([(b"k", b"v")] * 3, last_offset_delta=1), id="last offset delta too small"),
        pytest.param(crafted_batch(last_offset_delta=-1), id="last offset delta negative"),
        pytest.param(crafted_batch([], count=0), id="no records"),
        pytest.param(crafted_batch([], count=0, last_offset_delta=0), id="no records, delta 0"),
        pytest.param(ONE + ONE, id="two batches"),
        pytest.param(b"", id="empty"),
        pytest.param(ONE[:-1], id="cut short"),
        pytest.param(ONE[:11], id="less than a length"),
        pytest.param(ONE[:40], id="less than a header"),
        pytest.param(ONE + b"\0", id="a byte too many"),
        pytest.param(ONE + b"\0" * 20, id="zeros after it"),
        pytest.param(crafted_batch(length=10), id="length too small"),
        pytest.param(crafted_batch(length=48), id="length below a header"),
        pytest.param(crafted_batch(length=1000), id="length too large"),
        pytest.param(crafted_batch(length=-1), id="length negative"),
        pytest.param(crafted_batch(base_offset=7), id="base offset not 0"),
        pytest.param(crafted_batch(base_offset=-1), id="base offset negative"),
        pytest.param(crafted_batch(attributes=0x20), id="control batch"),
        pytest.param(crafted_batch(attributes=0x10), id="transactional without producer"),
        pytest.param(crafted_batch(attributes=0x08), id="log append time"),
        pytest.param(crafted_batch(attributes=0x05), id="unknown compression 5"),
        pytest.param(crafted_batch(attributes=0x40), id="delete horizon"),
        pytest.param(crafted_batch(attributes=0x80), id="unknown attribute"),
        pytest.param(crafted_batch(leader_epoch=9), id="a leader epoch of its own"),
        pytest.param(crafted_batch(base_timestamp=-1), id="no timestamp"),
    ],
)
def test_batches_that_are_wrong(both: Any, version: int, records: bytes | None) -> None:
    topic = both.topic()
    both.same(produce(topic, records), version)
    if version == 9:
        both.same(fetch(topic), 11)


GOOD = encoded_records([(b"k", b"v"), (b"k", b"v")])


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(GOOD, id="good"),
        pytest.param(b"", id="nothing"),
        pytest.param(GOOD[:-1], id="cut short"),
        pytest.param(GOOD + b"\0", id="a byte too many"),
        pytest.param(GOOD[:-1] + b"\x02", id="a header that is not there"),
        pytest.param(GOOD[:-1] + b"\x01", id="a negative number of headers"),
        pytest.param(GOOD[:-3] + b"\xc8\x01v\0", id="a value that is too long"),
        pytest.param(bytes(20), id="zeros"),
    ],
)
def test_records_that_contradict_their_header(both: Any, codec: Compression, body: bytes) -> None:
    packed = compress(body, codec) if codec else body
    both.same(produce(both.topic(), crafted_batch([(b"k", b"v")] * 2, body=packed, attributes=codec)), 9)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_payloads_that_cannot_be_decompressed(both: Any, codec: Compression) -> None:
    topic, packed = both.topic(), compress(GOOD, codec)
    for body in (b"\xff" * 30, packed[:-3], packed[: len(packed) // 2]):
        both.same(produce(topic, crafted_batch([(b"k", b"v")] * 2, body=body, attributes=codec)), 9)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize(
    ("base", "greatest"),
    [(2**63 - 1, 5), (2**63 - 2, 5), (-(2**63), 5), (-5, 5), (0, 10**12), (10**12, 2**62), (10**12, -7)],
)
def test_timestamps_of_the_header_that_contradict_the_records(
    both: Any, codec: Compression, base: int, greatest: int
) -> None:
    topic = both.topic()
    body = compress(GOOD, codec) if codec else GOOD
    batch = crafted_batch([(b"k", b"v")] * 2, body=body, attributes=codec, base_timestamp=base, max_timestamp=greatest)
    both.same(produce(topic, batch), 9, ignoring=("batch_index_error_message",))
    both.same(fetch(topic), 11)


@pytest.mark.parametrize("asked", [{"max_timestamp": 5}, {"base_timestamp": -2}])
def test_the_greatest_timestamp_of_a_batch_is_believed(both: Any, asked: dict[str, int]) -> None:
    """The deviation: Kafka computes it from the records and corrects the header."""
    topic = both.topic()
    both.same(produce(topic, crafted_batch([(b"k", b"v")] * 2, **asked)), 9)
    both.same(fetch(topic), 11, ignoring={"records"})


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_a_null_key_on_a_compacted_topic(both: Any, version: int) -> None:
    topic = both.topic(cleanup_policy="compact")
    both.same(produce(topic, crafted_batch([(b"k", b"v"), (None, b"v"), (None, b"w")])), version)
    both.same(produce(topic, crafted_batch([(b"", b"v"), (b"k", None)])), version)
    both.same(fetch(topic), 11)


@pytest.mark.parametrize("version", [3, 9])
def test_a_batch_over_the_limit(both: Any, version: int) -> None:
    topic = both.topic(max_message_bytes="1000")
    fits = 1000 - len(crafted_batch([(None, b"x" * 500)])) + 500
    both.same(produce(topic, crafted_batch([(None, b"x" * fits)])), version)
    both.same(produce(topic, crafted_batch([(None, b"x" * (fits + 1))])), version)


def test_one_bad_partition_beside_a_good_one(both: Any) -> None:
    topic = both.topic(partitions=2)
    data = [PartitionProduceData(index=0, records=crafted_batch(crc=1)), PartitionProduceData(index=1, records=ONE)]
    both.same(
        ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]), 9
    )


def test_a_partition_twice_in_one_request(both: Any) -> None:
    topic = both.topic()
    data = [PartitionProduceData(index=0, records=ONE), PartitionProduceData(index=0, records=ONE)]
    both.same(
        ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]), 9
    )
    both.same(fetch(topic), 11)


def test_nothing_to_append(both: Any) -> None:
    both.same(ProduceRequest(acks=1, timeout_ms=15_000), 9)


@pytest.mark.parametrize("hours", [-48, -1, 0, 2, 48])
@pytest.mark.parametrize("version", [7, 9])
def test_timestamps_have_bounds(both: Any, hours: int, version: int) -> None:
    topic = both.topic(message_timestamp_before_max_ms=str(24 * HOUR_MS), message_timestamp_after_max_ms=str(HOUR_MS))
    now_ms = int(time.time() * 1000)
    both.same(produce(topic, crafted_batch([(b"k", b"v")] * 3, base_timestamp=now_ms + hours * HOUR_MS)), version)


def test_timestamps_far_ahead_are_refused_by_default(both: Any) -> None:
    now_ms = int(time.time() * 1000)
    both.same(produce(both.topic(), crafted_batch(base_timestamp=now_ms + 2 * HOUR_MS)), 9)


@pytest.mark.parametrize("version", [3, 9])
def test_the_broker_sets_the_time(both: Any, version: int) -> None:
    topic = both.topic(message_timestamp_type="LogAppendTime")
    both.same(produce(topic, crafted_batch([(b"k", b"v")] * 2)), version)
    both.same(produce(topic, crafted_batch([(b"k", b"v")] * 2, base_timestamp=-1)), version)


def producer_ids(both: Any) -> dict[str, int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    return {side.name: side.ask(request, 4).producer_id for side in both.sides}


class Sequences:
    """Appends of one idempotent producer to one partition of both servers."""

    def __init__(self, both: Any) -> None:
        self.both = both
        self.topic: str = both.topic()
        self.ids = producer_ids(both)

    def append(self, sequence: int, *, epoch: int = 0, records: int = 1, version: int = 9) -> int:
        def asked(side: Any) -> ProduceRequest:
            batch = crafted_batch(
                [(b"k", b"v")] * records,
                producer_id=self.ids[side.name],
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            return produce(self.topic, batch, acks=-1)

        answer = self.both.same(asked, version)
        return int(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("version", [3, 9])
def test_a_duplicate_is_answered_with_its_first_offset(both: Any, version: int) -> None:
    producer = Sequences(both)
    for sequence in (0, 1, 2, 1, 0):
        assert producer.append(sequence, version=version) == 0


def test_only_the_last_five_batches_are_remembered(both: Any) -> None:
    producer = Sequences(both)
    for sequence in range(7):
        assert producer.append(sequence) == 0
    for sequence in (2, 6, 1, 0):
        producer.append(sequence)


@pytest.mark.parametrize("version", [3, 9])
def test_a_gap_is_refused(both: Any, version: int) -> None:
    producer = Sequences(both)
    producer.append(0, version=version)
    producer.append(2, version=version)
    producer.append(1, version=version)


def test_a_first_sequence_other_than_zero(both: Any) -> None:
    producer = Sequences(both)
    producer.append(5)
    producer.append(6)
    producer.append(5)


def test_a_batch_that_overlaps_another(both: Any) -> None:
    producer = Sequences(both)
    producer.append(0, records=3)
    producer.append(1, records=2)
    producer.append(2, records=2)
    producer.append(0, records=2)
    producer.append(3)


def test_epochs_of_a_producer(both: Any) -> None:
    producer = Sequences(both)
    producer.append(0)
    producer.append(0, epoch=1)
    producer.append(1, epoch=0)
    producer.append(5, epoch=2)
    producer.append(0, epoch=2)
    producer.append(1, epoch=2)
    producer.append(1, epoch=-1)


def test_sequences_wrap_around(both: Any) -> None:
    producer = Sequences(both)
    producer.append(2**31 - 2, records=2)
    producer.append(0)
    producer = Sequences(both)
    producer.append(2**31 - 2, records=4)
    producer.append(2)


def test_a_producer_without_a_sequence(both: Any) -> None:
    producer = Sequences(both)
    producer.append(-1)
    producer.append(0)
    producer.append(-1)


def test_several_batches_of_a_producer_in_one_partition(both: Any) -> None:
    producer = Sequences(both)

    def asked(side: Any) -> ProduceRequest:
        id = producer.ids[side.name]
        first = crafted_batch(producer_id=id, producer_epoch=0, base_sequence=0)
        second = crafted_batch(producer_id=id, producer_epoch=0, base_sequence=1)
        return produce(producer.topic, first + second)

    both.same(asked, 9)


def test_an_id_that_was_never_given_out(both: Any) -> None:
    topic = both.topic()
    both.same(produce(topic, crafted_batch(producer_id=777_777, producer_epoch=4, base_sequence=0)), 9)
    both.same(produce(topic, crafted_batch(producer_id=777_777, producer_epoch=4, base_sequence=1)), 9)
    both.same(produce(topic, crafted_batch(producer_id=777_777, producer_epoch=3, base_sequence=2)), 9)


@pytest.mark.parametrize("version", [3, 9, 12])
def test_transactional_batches_while_nobody_coordinates(both: Any, version: int) -> None:
    batch = crafted_batch(attributes=0x10, producer_id=888_888, producer_epoch=0, base_sequence=0)
    topic = both.topic()
    both.same(produce(topic, batch), version)
    named = produce(topic, batch)
    named.transactional_id = "a-transaction"
    both.same(named, version)
    both.same(produce(topic, ONE), version)


@pytest.mark.parametrize("version", [3, 6, 7, 9])
@pytest.mark.parametrize("codec", list(Compression))
def test_every_compression(both: Any, version: int, codec: Compression) -> None:
    body = bytes(compress(encoded_records([(b"k", b"v" * 500)] * 3), codec))
    topic = both.topic()
    both.same(produce(topic, crafted_batch([(b"k", b"v")] * 3, attributes=codec, body=body)), version)
    both.same(fetch(topic), 11)


def test_an_error_after_acks_0_closes_the_connection(both: Any) -> None:
    topic = both.topic()
    for records, name in ((ONE, "not-there"), (crafted_batch(crc=1), topic)):
        assert both.same(produce(name, records, acks=0), 9) is None


def test_more_in_sync_replicas_than_there_are_replicas_are_not_asked_for(both: Any) -> None:
    both.same(produce(both.topic(min_insync_replicas="3"), ONE, acks=-1), 9)


def test_several_topics_and_partitions_at_once(both: Any) -> None:
    first, second = both.topic(partitions=3), both.topic()
    topics = [
        TopicProduceData(name=first, partition_data=[PartitionProduceData(index=i, records=ONE) for i in (2, 0, 5)]),
        TopicProduceData(name="not-there", partition_data=[PartitionProduceData(records=ONE)]),
        TopicProduceData(name=second, partition_data=[PartitionProduceData(records=ONE)]),
        TopicProduceData(name=second, partition_data=[]),
    ]
    for version in (3, 9, 12):
        both.same(ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=topics), version)
