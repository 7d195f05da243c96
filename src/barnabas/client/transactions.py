"""Transactions that one process prepares and another may end.

    prepared = init_transactions(cluster, "id", timeout_ms=60_000)      fences and ends what went before
    with TransactionalProducer(settings, prepared) as producer:
        producer.send(...); producer.commit_offsets(...); producer.flush()
    end_transaction(cluster, prepared, commit=True)                     here, or wherever `prepared` was sent to

A transaction is its id, producer id and epoch. It is spoken of in the versions in which the end of a transaction does
not raise the epoch (AddPartitionsToTxn 3, Produce 11, TxnOffsetCommit 4, EndTxn 4): so the end can be asked for twice,
and by somebody who was not there before. Whoever initializes the same id again fences this one: its every request is
then refused with PRODUCER_FENCED or INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from barnabas.client.accumulator import BatchCallback, Callback
from barnabas.client.cluster import Attempts, Cluster, CoordinatorKind, error_codes
from barnabas.client.errors import Refused, TimedOut, TransactionFailed
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset, grouped
from barnabas.client.producer import Delivery, Headers, Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.schema import Request

ADD_PARTITIONS_VERSION = 3
TXN_OFFSET_COMMIT_VERSION = 4
END_TXN_VERSION = 4
# The former transaction of the id is being ended, or a partition is not known everywhere yet.
PASSING = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class PreparedTransaction(NamedTuple):
    """All that is needed to end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


def init_transactions(cluster: Cluster, transactional_id: str, *, timeout_ms: int = 60_000) -> PreparedTransaction:
    """A new epoch of this id. An older transaction of it that is open is aborted, one that is being committed stays."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer = _ask(cluster, "transaction", transactional_id, request, None, f"Transactional id {transactional_id}")
    return PreparedTransaction(transactional_id, answer.producer_id, answer.producer_epoch)


def end_transaction(cluster: Cluster, prepared: PreparedTransaction, *, commit: bool) -> None:
    """Once more is allowed, with the same end. Raises Refused if it was fenced, timed out, or ended the other way."""
    request = EndTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        committed=commit,
    )
    what = f"The transaction of {prepared.transactional_id} was not {'committed' if commit else 'aborted'}"
    _ask(cluster, "transaction", prepared.transactional_id, request, END_TXN_VERSION, what)


def list_transactions(cluster: Cluster, prefix: str = "", *, states: Iterable[str] = ()) -> list[ListedTransaction]:
    """Of all coordinators, by id. States are Kafka's: Ongoing, PrepareCommit, CompleteAbort, ..."""
    found: list[ListedTransaction] = []
    for node_id in sorted(cluster.metadata([]).brokers):
        answer = cluster.ask_node(node_id, ListTransactionsRequest(state_filters=list(states)))
        if answer.error_code:
            raise Refused(answer.error_code, f"Node {node_id} did not list its transactions")
        found += [
            ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
            if each.transactional_id.startswith(prefix)
        ]
    return sorted(found)


class Transaction:
    """The part of a transaction that the producer's thread sees."""

    def __init__(self, prepared: PreparedTransaction) -> None:
        self.prepared = prepared
        self.transactional_id = prepared.transactional_id
        self.producer = (prepared.producer_id, prepared.producer_epoch)
        self.partitions: set[TopicPartition] = set()

    def add_partitions(self, cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
        """Before anything is written to them."""
        new = set(partitions) - self.partitions
        if not new:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.prepared.producer_id,
            v3_and_below_producer_epoch=self.prepared.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=sorted(indexes))
                for topic, indexes in sorted(grouped(new).items())
            ],
        )
        what = f"The transaction of {self.transactional_id} cannot write"
        _ask(cluster, "transaction", self.transactional_id, request, ADD_PARTITIONS_VERSION, what)
        self.partitions |= new


class TransactionalProducer:
    """Writes and commits offsets in a transaction; ends it, or leaves that to somebody else."""

    def __init__(
        self,
        settings: ClientSettings,
        prepared: PreparedTransaction,
        producer_settings: ProducerSettings | None = None,
    ) -> None:
        self.prepared = prepared
        self._transaction = Transaction(prepared)
        self._cluster = Cluster(settings)
        self._groups: set[str] = set()
        self._producer = Producer(settings, producer_settings, transaction=self._transaction)

    @property
    def empty(self) -> bool:
        """Whether nothing was written so far: then there is nothing to end, and the broker would refuse to."""
        return not self._transaction.partitions and not self._groups

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
        callback: Callback | None = None,
    ) -> Delivery:
        return self._producer.send(topic, value, key, headers, partition, timestamp, callback)

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        partition: int | None = None,
        callback: BatchCallback | None = None,
    ) -> None:
        self._producer.send_many(topic, values, partition=partition, callback=callback)

    def send_batch(self, topic: str, partition: int, batch: bytes | bytearray | memoryview) -> Delivery:
        """A batch that was built elsewhere; producer and transaction are written into its header."""
        return self._producer.send_batch(topic, partition, batch)

    def flush(self, timeout_s: float | None = None) -> None:
        """Waits until everything is written; raises TransactionFailed if something was not."""
        self._producer.flush(timeout_s)
        if self._producer.error is not None:
            raise TransactionFailed(str(self._producer.error)) from self._producer.error

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """They become the group's with the transaction's commit."""
        prepared = self.prepared
        what = f"The transaction of {prepared.transactional_id} cannot commit offsets of group {group_id}"
        if group_id not in self._groups:
            request = AddOffsetsToTxnRequest(
                transactional_id=prepared.transactional_id,
                producer_id=prepared.producer_id,
                producer_epoch=prepared.producer_epoch,
                group_id=group_id,
            )
            _ask(self._cluster, "transaction", prepared.transactional_id, request, None, what)
            self._groups.add(group_id)
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[topic, index].offset,
                        committed_leader_epoch=offsets[topic, index].leader_epoch,
                        committed_metadata=offsets[topic, index].metadata,
                    )
                    for index in sorted(indexes)
                ],
            )
            for topic, indexes in grouped(offsets).items()
        ]
        commit = TxnOffsetCommitRequest(
            transactional_id=prepared.transactional_id,
            group_id=group_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            topics=topics,
        )
        _ask(self._cluster, "group", group_id, commit, TXN_OFFSET_COMMIT_VERSION, what)

    def end(self, *, commit: bool) -> None:
        """Everything is written before a commit, and what has not left is withdrawn before an abort. Afterwards the
        next transaction may begin, unless this one failed."""
        if commit:
            self.flush()
        else:
            self._producer.withdraw(TransactionFailed("The transaction was aborted before the record was sent."))
        if not self.empty:
            end_transaction(self._cluster, self.prepared, commit=commit)
        self._transaction.partitions.clear()
        self._groups.clear()

    def close(self) -> None:
        """Does not end the transaction."""
        self._producer.close()
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _ask(cluster: Cluster, kind: CoordinatorKind, key: str, request: Request, version: int | None, what: str) -> Any:
    """Asks again while something passes; every other error is raised."""
    attempts = Attempts(cluster.settings)
    while True:
        if version is not None:
            newest = cluster.coordinator_version(kind, key, type(request), attempts)
            answer = cluster.ask_coordinator(kind, key, request, version=min(version, newest))
        else:
            answer = cluster.ask_coordinator(kind, key, request)
        codes = set(error_codes(answer))
        if not codes:
            return answer
        fatal = codes - PASSING - {ErrorCode.OPERATION_NOT_ATTEMPTED}
        if fatal:
            raise Refused(min(fatal), what)
        if not attempts.pause():
            raise TimedOut(f"{what}: {min(codes).name} for {attempts.timeout_ms} ms.")
