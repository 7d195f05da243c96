"""Transactions that tasks prepare and another process ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused, TimedOut, TransactionFailed
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.client.transactions import (
    PreparedTransaction,
    TransactionalProducer,
    end_transaction,
    init_transactions,
    list_transactions,
)
from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode

LIMIT_S = 30.0
COMMIT = """
import json, sys
from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
from barnabas.client.transactions import PreparedTransaction, end_transaction
with Cluster(ClientSettings.from_properties({}, bootstrap_servers=sys.argv[1])) as cluster:
    for _ in range(2):
        end_transaction(cluster, PreparedTransaction(*json.loads(sys.argv[2])), commit=True)
"""


def settings(node: Node, **properties: str) -> ClientSettings:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientSettings.from_properties(given, bootstrap_servers=node.bootstrap_servers)


@pytest.fixture
def cluster(node: Node) -> Iterator[Cluster]:
    with Cluster(settings(node)) as made:
        yield made


def committed_values(cluster: Cluster, topic: str, partitions: int = 1) -> list[bytes | None]:
    """What a reader of committed records sees of a topic up to its last stable offset, sorted."""
    wanted = {(topic, index): -1 for index in range(partitions)}
    ends = {name: at.offset for name, at in cluster.list_offsets(wanted, isolation="read_committed").items()}
    found: list[bytes | None] = []
    with Fetcher(cluster, FetchSettings(isolation="read_committed")) as fetcher:
        fetcher.assign(dict.fromkeys(ends, 0))
        deadline = time.monotonic() + LIMIT_S
        while fetcher.positions != ends:
            assert time.monotonic() < deadline, (fetcher.positions, ends)
            for fetched in fetcher.poll(200):
                found += [record.value for record in iterate_records(fetched)]
    return sorted(found, key=lambda value: value or b"")


def test_a_transaction_prepared_here_is_committed_by_another_process_and_once_more(
    node: Node, cluster: Cluster
) -> None:
    node.create_topic("out", partitions=2)
    node.create_topic("anchor")
    prepared = init_transactions(cluster, "job.0")
    with TransactionalProducer(settings(node), prepared) as producer:
        for number in range(20):
            producer.send("out", b"%02d" % number, partition=number % 2)
        producer.commit_offsets("job.0", {("anchor", 0): CommittedOffset(7, "rows=20")})
        producer.flush(LIMIT_S)
    assert committed_values(cluster, "out", 2) == []
    assert list_transactions(cluster, "job.") == [("job.0", prepared.producer_id, "Ongoing")]
    subprocess.run([sys.executable, "-c", COMMIT, node.bootstrap_servers, json.dumps(prepared)], check=True)
    assert committed_offsets(cluster, "job.0", [("anchor", 0)], require_stable=True) == {
        ("anchor", 0): (7, "rows=20", -1)
    }
    wait_for_end(cluster, "out", 2)
    assert committed_values(cluster, "out", 2) == [b"%02d" % number for number in range(20)]
    assert list_transactions(cluster, "job.", states=["Ongoing"]) == []


def wait_for_end(cluster: Cluster, topic: str, partitions: int) -> None:
    """Markers are written after the end was promised."""
    wanted = {(topic, index): -1 for index in range(partitions)}
    deadline = time.monotonic() + LIMIT_S
    while cluster.list_offsets(wanted, isolation="read_committed") != cluster.list_offsets(wanted):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_aborted_transaction_leaves_nothing_behind_and_the_next_goes_on(node: Node, cluster: Cluster) -> None:
    node.create_topic("aborted")
    prepared = init_transactions(cluster, "abort.0")
    with TransactionalProducer(settings(node), prepared) as producer:
        assert producer.empty
        producer.end(commit=False)
        producer.send("aborted", b"gone")
        producer.flush(LIMIT_S)
        producer.end(commit=False)
        producer.send("aborted", b"kept")
        producer.end(commit=True)
        producer.commit_offsets("abort.0", {("aborted", 0): CommittedOffset(1)})
        producer.end(commit=False)
    wait_for_end(cluster, "aborted", 1)
    assert committed_values(cluster, "aborted") == [b"kept"]
    assert committed_offsets(cluster, "abort.0", require_stable=True) == {}


def test_records_that_have_not_left_when_it_is_aborted_are_in_no_later_transaction(
    node: Node, cluster: Cluster
) -> None:
    node.create_topic("withdrawn")
    prepared = init_transactions(cluster, "withdrawn.0")
    with TransactionalProducer(settings(node, linger_ms="30000"), prepared) as producer:
        waiting = producer.send("withdrawn", b"gone")
        producer.end(commit=False)
        with pytest.raises(TransactionFailed):
            waiting.result(LIMIT_S)
        for number in range(3):
            producer.send("withdrawn", b"kept %d" % number)
        producer.end(commit=True)
        producer.send("withdrawn", b"gone too")
        producer.flush(LIMIT_S)
        producer.send("withdrawn", b"gone as well")
        producer.end(commit=False)
        producer.send("withdrawn", b"kept 3")
        producer.end(commit=True)
    wait_for_end(cluster, "withdrawn", 1)
    assert committed_values(cluster, "withdrawn") == [b"kept %d" % number for number in range(4)]


def test_nothing_is_committed_without_a_record_that_was_refused(node: Node, cluster: Cluster) -> None:
    """Also by who asks for the commit before the producer's thread has told everybody."""
    node.create_topic("refused", config={"max.message.bytes": 1000})
    prepared = init_transactions(cluster, "refused.0")
    with TransactionalProducer(settings(node), prepared) as producer:
        producer.send("refused", b"small")
        producer.flush(LIMIT_S)
        producer.send("refused", b"x" * 5000, callback=lambda *_: time.sleep(0.3))
        with pytest.raises(TransactionFailed):
            producer.end(commit=True)
        producer.end(commit=False)
    wait_for_end(cluster, "refused", 1)
    assert committed_values(cluster, "refused") == []


def test_who_comes_later_fences_and_ends_who_came_before(node: Node, cluster: Cluster) -> None:
    node.create_topic("fenced")
    old = init_transactions(cluster, "fence.0")
    with TransactionalProducer(settings(node), old) as zombie:
        zombie.send("fenced", b"zombie")
        zombie.flush(LIMIT_S)
        new = init_transactions(cluster, "fence.0")
        assert (new.producer_id, new.producer_epoch) > (old.producer_id, old.producer_epoch)
        zombie.send("fenced", b"late")
        with pytest.raises(TransactionFailed):
            zombie.flush(LIMIT_S)
        with pytest.raises(Refused, match=r"^The transaction of fence\.0 was not committed \(") as refused:
            end_transaction(cluster, old, commit=True)
        assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        with pytest.raises(Refused, match=r"cannot commit offsets of group"):
            zombie.commit_offsets("fence.0", {("fenced", 0): CommittedOffset(1)})
    with TransactionalProducer(settings(node), new) as producer:
        producer.send("fenced", b"new")
        producer.end(commit=True)
    wait_for_end(cluster, "fenced", 1)
    assert committed_values(cluster, "fenced") == [b"new"]


def test_an_end_that_contradicts_the_first_is_refused(node: Node, cluster: Cluster) -> None:
    node.create_topic("twice")
    prepared = init_transactions(cluster, "twice.0")
    with TransactionalProducer(settings(node), prepared) as producer:
        producer.send("twice", b"v")
        producer.end(commit=True)
    with pytest.raises(Refused, match="was not aborted"):
        end_transaction(cluster, prepared, commit=False)
    unknown = PreparedTransaction("nobody", 123456, 0)
    with pytest.raises(Refused, match=r"INVALID_PRODUCER_ID_MAPPING|NOT_FOUND"):
        end_transaction(cluster, unknown, commit=True)


def test_batches_built_elsewhere_are_written_in_the_transaction(node: Node, cluster: Cluster) -> None:
    node.create_topic("built")
    prepared = init_transactions(cluster, "built.0")
    now_ms = int(time.time() * 1000)
    with TransactionalProducer(settings(node), prepared) as producer:
        for first in (0, 3):
            batch = build_batch([Record(n, now_ms, None, b"%d" % n) for n in range(first, first + 3)])
            assert producer.send_batch("built", 0, batch).result(LIMIT_S).offset == first
        producer.send("built", b"6")
        producer.send_many("built", [b"7", b"8"])
        producer.end(commit=True)
    wait_for_end(cluster, "built", 1)
    assert committed_values(cluster, "built") == [b"%d" % number for number in range(9)]


def test_an_offset_in_an_open_transaction_is_waited_for_if_it_must_be_stable(node: Node, cluster: Cluster) -> None:
    node.create_topic("stable")
    commit_offsets(cluster, "stable.0", {("stable", 0): CommittedOffset(1, "before")})
    prepared = init_transactions(cluster, "stable.0")
    with TransactionalProducer(settings(node), prepared) as producer:
        producer.commit_offsets("stable.0", {("stable", 0): CommittedOffset(2)})
        assert committed_offsets(cluster, "stable.0") == {("stable", 0): (1, "before", -1)}
        with (
            Cluster(settings(node, default_api_timeout_ms="200")) as impatient,
            pytest.raises(
                TimedOut, match=r"^Offsets of group stable\.0 are part of a transaction that does not end\.$"
            ),
        ):
            committed_offsets(impatient, "stable.0", [("stable", 0)], require_stable=True)
        producer.end(commit=True)
    assert committed_offsets(cluster, "stable.0", [("stable", 0)], require_stable=True)["stable", 0].offset == 2


def test_a_timeout_that_is_too_long_is_refused(cluster: Cluster) -> None:
    with pytest.raises(Refused, match=r"^Transactional id long\.0 \(INVALID_TRANSACTION_TIMEOUT\)$"):
        init_transactions(cluster, "long.0", timeout_ms=3_600_000)
