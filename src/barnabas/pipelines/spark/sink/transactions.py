"""Transactions in pieces: one process begins and fills a transaction, another one ends it.

A transaction is known by its transactional id, producer id and epoch, which travel as plain values; how it is spoken of
is the client's business (`barnabas.client.transaction_requests`).

    begin(id) ends what a former holder of the id left open, and shuts it out by a new epoch
    add_partitions, then batches produced by a BatchSender; leave_mark for a mark that becomes committed with them
    end(transaction, commit=True | False)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client import transaction as transactions
from barnabas.client import transaction_requests as requests
from barnabas.client.batch_sender import BatchSender
from barnabas.client.cluster import Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset, committed_offsets
from barnabas.client.transaction_requests import PreparedTransaction
from barnabas.pipelines.spark.sink.marks import PARTITION, Marks, mark_batch
from barnabas.wire.errors import ErrorCode

__all__ = ["FENCED", "CommittedOffset", "SinkTransaction", "TransactionalProducer"]

FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # of batches that followed one that was refused
    }
)


class SinkTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class TransactionalProducer:
    """Speaks to the coordinators of transactions and groups; blocking, and for one thread at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.batch_connections: dict[int, Connection] = {}  # by node
        self._marks: dict[str, Marks] = {}
        self._filling: SinkTransaction | None = None
        self._added: set[TopicPartition] = set()

    def begin(self, transactional_id: str, timeout_ms: int) -> SinkTransaction:
        """Waits until a transaction that the id's former holder left is ended. `timeout_ms` bounds this one's life."""
        try:
            return SinkTransaction(*requests.init_transactions(self.cluster, transactional_id, timeout_ms=timeout_ms))
        except Refused as error:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                why = f"transaction.timeout.ms is {timeout_ms}, and the cluster's transaction.max.timeout.ms is less"
                raise Refused(error.code, why) from error
            raise

    def add_partitions(self, transaction: SinkTransaction, partitions: Iterable[TopicPartition]) -> None:
        """Those of this transaction that were added here already are not asked for again."""
        if transaction != self._filling:
            self._filling, self._added = transaction, set()
        if new := set(partitions) - self._added:
            requests.add_partitions(self.cluster, PreparedTransaction(*transaction), new)
            self._added |= new

    def marks_partition(self, topic: str) -> list[TopicPartition]:
        """Which `leave_mark` writes to. Added together with others, it costs no question of its own."""
        self._marks_of(topic).make_sure()
        return [(topic, PARTITION)]

    def leave_mark(self, transaction: SinkTransaction, topic: str, mark: CommittedOffset) -> None:
        """Committed when the transaction is."""
        marks = self.marks_partition(topic)
        self.add_partitions(transaction, marks)
        known = transactions.ProducerTransaction(PreparedTransaction(*transaction))
        known.partitions.update(marks)
        sender = BatchSender(self.cluster, transaction=known, connections=self.batch_connections)
        try:
            sender.send(topic, PARTITION, mark_batch(transaction.transactional_id, mark))
            sender.flush()
        finally:
            sender.close()

    def last_mark(self, transactional_id: str, topic: str) -> CommittedOffset | None:
        """Waits until no open transaction may change it. None if the id never committed one."""
        return self._marks_of(topic).last(transactional_id)

    def last_of_group(self, transactional_id: str, topic: str) -> CommittedOffset | None:
        """What versions before marks left: an offset on the topic, committed for the group of the id's name."""
        try:
            found = committed_offsets(self.cluster, transactional_id, [(topic, PARTITION)], require_stable=True)
        except Refused as refused:
            if refused.code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
                return None
            raise
        return found.get((topic, PARTITION))

    def delete_group(self, transactional_id: str) -> None:
        from barnabas.client.admin.groups import delete_group

        delete_group(self.cluster, transactional_id)

    def close(self) -> None:
        for connection in self.batch_connections.values():
            connection.close()
        self.batch_connections.clear()

    def _marks_of(self, topic: str) -> Marks:
        if topic not in self._marks:
            self._marks[topic] = Marks(self.cluster, topic)
        return self._marks[topic]

    def end(self, transaction: SinkTransaction, *, commit: bool) -> None:
        """May be repeated, with the same outcome, by any process that knows the transaction."""
        if transaction == self._filling:
            self._filling = None  # the next one of the same epoch has none of its partitions
        requests.end_transaction(self.cluster, PreparedTransaction(*transaction), commit=commit)

    def open_transactions(self, prefix: str) -> list[str]:
        """The transactional ids that begin so and have an open transaction, on any broker."""
        return [each.transactional_id for each in requests.list_transactions(self.cluster, prefix, states=["Ongoing"])]
