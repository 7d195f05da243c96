"""Transactions in pieces, by our client, on our node and on Apache Kafka alike."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.batch_sender import BatchSender
from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.settings import ClientSettings
from barnabas.client.transaction import ProducerTransaction
from barnabas.client.transaction_requests import PreparedTransaction
from barnabas.pipelines.spark.sink.transactions import CommittedOffset, TransactionalProducer
from barnabas.wire.batch import Record, build_batch, decode_records, iterate_batches
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

numbers = itertools.count(1)
MARKS = "marks"
TIMEOUT_MS = 60_000


@pytest.fixture(params=["barnabas", "apache"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    server: Any = request.getfixturevalue({"barnabas": "barnabas_node", "apache": "apache_kafka"}[request.param])
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": server.bootstrap_servers})) as cluster:
        yield cluster


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[TransactionalProducer]:
    made = TransactionalProducer(cluster)
    yield made
    made.close()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"pieces-{next(numbers)}"
    made = cluster.ask_controller(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)], timeout_ms=30_000
        )
    )
    assert made.topics[0].error_code == 0
    return name


@pytest.fixture
def txn_id(topic: str) -> str:
    return f"txn.{topic}"


def batch(values: list[bytes]) -> bytearray:
    records = [Record(offset, int(time.time() * 1000), None, value) for offset, value in enumerate(values)]
    return build_batch(records, base_offset=0)


def sender_of(cluster: Cluster, transaction: Any, **settings: int) -> BatchSender:
    return BatchSender(cluster, ProducerSettings(**settings), ProducerTransaction(PreparedTransaction(*transaction)))


def committed_values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    leader = cluster.connection(cluster.leader(topic, partition))
    asked = FetchTopic(
        topic=topic,
        topic_id=cluster.topic(topic).topic_id,
        partitions=[FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)],
    )
    answer = leader.request(
        FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1, topics=[asked]),
        12,
    )
    result = answer.responses[0].partitions[0]
    aborted = {entry.producer_id: entry.first_offset for entry in result.aborted_transactions or []}
    found: list[bytes | None] = []
    for position, header in iterate_batches(result.records):
        if header.is_control:
            aborted.pop(header.producer_id, None)
        elif not (header.is_transactional and header.base_offset >= aborted.get(header.producer_id, 1 << 62)):
            found += [record.value for record in decode_records(result.records, position)]
    return found


def wait_for_values(cluster: Cluster, topic: str, expected: list[bytes]) -> None:
    deadline = time.monotonic() + 10
    while (found := committed_values(cluster, topic)) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == expected


def fill(producer: TransactionalProducer, transaction: Any, topic: str, values: list[bytes]) -> None:
    producer.add_partitions(transaction, [(topic, 0)])
    sender = sender_of(producer.cluster, transaction)
    for value in values:
        sender.send(topic, 0, batch([value]))
    try:
        sender.flush()
    finally:
        sender.close()


def test_another_process_commits_what_one_prepared_and_may_repeat_it(
    producer: TransactionalProducer, topic: str, txn_id: str
) -> None:
    transaction = producer.begin(txn_id, TIMEOUT_MS)
    fill(producer, transaction, topic, [b"a", b"b"])
    producer.leave_mark(transaction, MARKS, CommittedOffset(8, "2 rows"))
    assert committed_values(producer.cluster, topic) == []
    with Cluster(producer.cluster.settings) as elsewhere:
        driver = TransactionalProducer(elsewhere)
        for _ in range(3):
            driver.end(transaction, commit=True)
    assert producer.last_mark(txn_id, MARKS) == CommittedOffset(8, "2 rows")
    wait_for_values(producer.cluster, topic, [b"a", b"b"])


def test_a_new_holder_of_the_id_ends_what_was_open_and_shuts_the_former_out(
    producer: TransactionalProducer, topic: str, txn_id: str
) -> None:
    former = producer.begin(txn_id, TIMEOUT_MS)
    fill(producer, former, topic, [b"lost"])
    producer.leave_mark(former, MARKS, CommittedOffset(1))
    present = producer.begin(txn_id, TIMEOUT_MS)
    assert producer.last_mark(txn_id, MARKS) is None
    with pytest.raises(Refused) as refused:
        producer.end(former, commit=True)
    assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    with pytest.raises(Refused) as refused:
        fill(producer, former, topic, [b"zombie"])
    assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    fill(producer, present, topic, [b"kept"])
    producer.end(present, commit=True)
    wait_for_values(producer.cluster, topic, [b"kept"])


def test_an_aborted_transaction_cannot_be_committed_and_leaves_no_mark(
    producer: TransactionalProducer, topic: str, txn_id: str
) -> None:
    transaction = producer.begin(txn_id, TIMEOUT_MS)
    fill(producer, transaction, topic, [b"gone"])
    producer.leave_mark(transaction, MARKS, CommittedOffset(1))
    producer.end(transaction, commit=False)
    producer.end(transaction, commit=False)
    with pytest.raises(Refused) as refused:
        producer.end(transaction, commit=True)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    assert producer.last_mark(txn_id, MARKS) is None
    wait_for_values(producer.cluster, topic, [])


def test_open_transactions_are_found_by_the_beginning_of_their_ids(
    producer: TransactionalProducer, topic: str, txn_id: str
) -> None:
    opened = [producer.begin(f"{txn_id}.{number}", TIMEOUT_MS) for number in range(3)]
    for transaction in opened[:2]:
        producer.add_partitions(transaction, [(topic, 0)])
    assert producer.open_transactions(f"{txn_id}.") == [f"{txn_id}.0", f"{txn_id}.1"]
    assert producer.open_transactions(f"{txn_id}.1") == [f"{txn_id}.1"]
    for transaction in opened[:2]:
        producer.end(transaction, commit=False)
    assert producer.begin(f"{txn_id}.0", TIMEOUT_MS).epoch > opened[0].epoch
    assert producer.open_transactions("nobody has this") == []


def test_a_time_out_beyond_the_clusters_is_refused_with_both_names(
    producer: TransactionalProducer, txn_id: str
) -> None:
    with pytest.raises(Refused, match=r"transaction\.timeout\.ms is 3600000.*transaction\.max\.timeout\.ms"):
        producer.begin(txn_id, 3_600_000)


def test_an_id_that_never_committed_has_no_mark_and_no_group(producer: TransactionalProducer, topic: str) -> None:
    assert producer.last_mark(f"id-{topic}", MARKS) is None
    assert producer.last_mark(f"id-{topic}", f"nothing-{topic}") is None
    assert producer.last_of_group(f"id-{topic}", topic) is None


def test_a_mark_is_known_while_transactions_of_others_are_open_before_it(
    producer: TransactionalProducer, txn_id: str
) -> None:
    """A reader of committed records would stop before the open one."""
    other = producer.begin(f"{txn_id}.other", TIMEOUT_MS)
    producer.leave_mark(other, MARKS, CommittedOffset(1, "open"))
    for number in (5, 6):
        transaction = producer.begin(txn_id, TIMEOUT_MS)
        producer.leave_mark(transaction, MARKS, CommittedOffset(number, f"batch {number}"))
        producer.end(transaction, commit=True)
    with Cluster(producer.cluster.settings) as elsewhere:
        driver = TransactionalProducer(elsewhere)
        driver.begin(txn_id, TIMEOUT_MS)
        assert driver.last_mark(txn_id, MARKS) == CommittedOffset(6, "batch 6")
    producer.end(other, commit=True)
    producer.begin(f"{txn_id}.other", TIMEOUT_MS)
    assert producer.last_mark(f"{txn_id}.other", MARKS) == CommittedOffset(1, "open")


def test_batches_of_many_partitions_arrive_in_order(producer: TransactionalProducer, topic: str, txn_id: str) -> None:
    transaction = producer.begin(txn_id, TIMEOUT_MS)
    producer.add_partitions(transaction, [(topic, 0), (topic, 1)])
    sender = sender_of(producer.cluster, transaction, max_request_size=1_000)
    for number in range(50):
        for partition in (0, 1):
            sender.send(topic, partition, batch([b"%d" % number]))
    sender.flush()
    sender.close()
    producer.end(transaction, commit=True)
    wait_for_values(producer.cluster, topic, [b"%d" % number for number in range(50)])


def test_a_batch_that_is_too_large_is_refused_with_the_topics_setting(
    producer: TransactionalProducer, topic: str, txn_id: str
) -> None:
    transaction = producer.begin(txn_id, TIMEOUT_MS)
    with pytest.raises(Refused, match=r"larger than the topic's max\.message\.bytes"):
        fill(producer, transaction, topic, [bytes(1_100_000)])
    producer.end(transaction, commit=False)
