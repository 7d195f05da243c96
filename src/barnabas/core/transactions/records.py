"""Transactions as records of __transaction_state: the key is the transactional id, the value its whole state.

Values are written in version 1, whose tagged fields the newer transactions need, unless the cluster has not finalized
transaction.version: then nobody may rely on their being understood.
"""

from __future__ import annotations

from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.transactions.state import EMPTY, TopicPartition, Transaction
from barnabas.wire.records.transactions import PartitionsSchema, TransactionLogKey, TransactionLogValue


def record_of(transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is EMPTY else by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if transaction_version:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    return CoordinatorRecord(key, value, 1 if transaction_version else 0)


def tombstone_of(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def by_topic(transaction: Transaction) -> list[PartitionsSchema]:
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in partitions_by_topic(transaction)]


def partitions_by_topic(transaction: Transaction) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    partition: TopicPartition
    for partition in sorted(transaction.partitions):
        topics.setdefault(partition[0], []).append(partition[1])
    return list(topics.items())
