"""What a sender knows of the transaction it writes in."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.cluster import Cluster
from barnabas.client.metadata import TopicPartition
from barnabas.client.transaction_requests import PreparedTransaction, add_partitions


class ProducerTransaction:
    """A prepared transaction, and the partitions it has."""

    def __init__(self, prepared: PreparedTransaction) -> None:
        self.prepared = prepared
        self.transactional_id = prepared.transactional_id
        self.producer = (prepared.producer_id, prepared.producer_epoch)
        self.partitions: set[TopicPartition] = set()

    def add_partitions(self, cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
        """Before anything is written to them."""
        new = set(partitions) - self.partitions
        if new:
            add_partitions(cluster, self.prepared, new)
            self.partitions |= new
