"""Transactions that one process prepares and another may end.

prepared = init_transactions(cluster, "id", timeout_ms=60_000)      fences and ends what went before
with TransactionalProducer(settings, prepared) as producer:
    producer.send(...); producer.commit_offsets(...); producer.flush()
end_transaction(cluster, prepared, commit=True)                     here, or wherever `prepared` was sent to
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.cluster import Cluster
from barnabas.client.errors import TransactionFailed
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.settings import ClientSettings
from barnabas.client.transaction import ProducerTransaction
from barnabas.client.transaction_requests import (
    ListedTransaction,
    PreparedTransaction,
    add_group,
    add_offsets,
    end_transaction,
    init_transactions,
    list_transactions,
)

__all__ = [
    "ListedTransaction",
    "PreparedTransaction",
    "TransactionalProducer",
    "end_transaction",
    "init_transactions",
    "list_transactions",
]


class TransactionalProducer(Producer):
    """Writes and commits offsets in a transaction; ends it, or leaves that to somebody else."""

    def __init__(
        self,
        settings: ClientSettings,
        prepared: PreparedTransaction,
        producer_settings: ProducerSettings | None = None,
    ) -> None:
        self.prepared = prepared
        self._transaction = ProducerTransaction(prepared)
        self._cluster = Cluster(settings)
        self._groups: set[str] = set()
        super().__init__(settings, producer_settings, transaction=self._transaction)

    @property
    def empty(self) -> bool:
        """Whether nothing was written so far: then there is nothing to end, and the broker would refuse to."""
        return not self._transaction.partitions and not self._groups

    def flush(self, timeout_s: float | None = None) -> None:
        """Waits until everything is written; raises TransactionFailed if something was not."""
        super().flush(timeout_s)
        if self.error is not None:
            raise TransactionFailed(str(self.error)) from self.error

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """They become the group's with the transaction's commit."""
        if group_id not in self._groups:
            add_group(self._cluster, self.prepared, group_id)
            self._groups.add(group_id)
        add_offsets(self._cluster, self.prepared, group_id, offsets)

    def end(self, *, commit: bool) -> None:
        """Everything is written before a commit, and what has not left is withdrawn before an abort. Afterwards the
        next transaction may begin, unless this one failed."""
        if commit:
            self.flush()
        else:
            self.withdraw(TransactionFailed("The transaction was aborted before the record was sent."))
        if not self.empty:
            end_transaction(self._cluster, self.prepared, commit=commit)
        self._transaction.partitions.clear()
        self._groups.clear()

    def close(self, timeout_s: float | None = None) -> None:
        """Does not end the transaction."""
        try:
            super().close(timeout_s)
        finally:
            self._cluster.close()
