"""Transactions in pieces: one process begins and fills a transaction, another one ends it.

A transaction is known by its transactional id, producer id and epoch, which travel as plain values; how it is spoken of
is the client's business (`barnabas.client.transaction_requests`).

    begin(id) ends what a former holder of the id left open, and shuts it out by a new epoch
    add_partitions, then batches produced by a BatchSender; add_offset for an offset that becomes committed with them
    end(transaction, commit=True | False)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client import transaction_requests as requests
from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset, committed_offsets
from barnabas.client.transaction_requests import PreparedTransaction
from barnabas.wire.errors import ErrorCode

__all__ = ["FENCED", "CommittedOffset", "Transaction", "TransactionalProducer"]

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


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class TransactionalProducer:
    """Speaks to the coordinators of transactions and groups; blocking, and for one thread at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def begin(self, transactional_id: str, timeout_ms: int) -> Transaction:
        """Waits until a transaction that the id's former holder left is ended. `timeout_ms` bounds this one's life."""
        try:
            return Transaction(*requests.init_transactions(self.cluster, transactional_id, timeout_ms=timeout_ms))
        except Refused as error:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                why = f"transaction.timeout.ms is {timeout_ms}, and the cluster's transaction.max.timeout.ms is less"
                raise Refused(error.code, why) from error
            raise

    def add_partitions(self, transaction: Transaction, partitions: Iterable[TopicPartition]) -> None:
        requests.add_partitions(self.cluster, PreparedTransaction(*transaction), partitions)

    def add_offset(self, transaction: Transaction, group: str, at: TopicPartition, offset: int, metadata: str) -> None:
        """The group's offset, committed when the transaction is."""
        prepared = PreparedTransaction(*transaction)
        requests.add_group(self.cluster, prepared, group)
        requests.add_offsets(self.cluster, prepared, group, {at: CommittedOffset(offset, metadata)})

    def committed_offset(self, group: str, at: TopicPartition) -> CommittedOffset | None:
        """Waits until no open transaction may change it any more. None if the group never committed one."""
        return committed_offsets(self.cluster, group, [at], require_stable=True).get(at)

    def end(self, transaction: Transaction, *, commit: bool) -> None:
        """May be repeated, with the same outcome, by any process that knows the transaction."""
        requests.end_transaction(self.cluster, PreparedTransaction(*transaction), commit=commit)

    def open_transactions(self, prefix: str) -> list[str]:
        """The transactional ids that begin so and have an open transaction, on any broker."""
        return [each.transactional_id for each in requests.list_transactions(self.cluster, prefix, states=["Ongoing"])]
