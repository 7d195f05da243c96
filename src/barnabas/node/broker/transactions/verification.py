"""Whether writes belong to an open transaction of their producer: asked before its first write to a partition.

Newer clients leave it to the broker to add the partition to the transaction (`adds`), older ones have added it before
and are only verified. Without either, a late write could be left behind in the log after its transaction has ended, and
hold back readers of committed records for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.errors import ClientError
from barnabas.core.transactions.state import EPOCH_BUMPS_SINCE, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.node.broker.transactions.coordinator import TransactionCoordinator
    from barnabas.node.ports import Transactions

NOBODY = -1
# The marker of the producer's transaction before may come while the coordinator is asked about this one. What it says
# then is not to be relied on, and it is asked again; INVALID_TXN_STATE would end a producer for good.
VERIFICATIONS_MAX = 3
TIMEOUT_MS = 30_000

# The coordinator cannot say now: the client is to try again, with an error that the oldest ones try again after.
RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Writer(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int


class Refusal(NamedTuple):
    """`message` where Kafka tells one."""

    code: ErrorCode
    message: str | None = None


async def verify(
    node: Transactions, writer: Writer, partitions: Sequence[TopicPartition], *, adds: bool, knows_abortable: bool
) -> dict[TopicPartition, Refusal]:
    """The partitions to which this must not be written, and what to answer for them."""
    coordinator = node.transactions
    try:
        leader = _coordinator_of(coordinator, writer.transactional_id)
        if leader not in (node.node_id, NOBODY):
            errors = await _ask(node, leader, writer, partitions, adds=adds)
            return {each: _refusal(code, adds, knows_abortable) for each, code in errors.items() if code}
        if adds:
            await coordinator.add_partitions(*writer, partitions, client_version=EPOCH_BUMPS_SINCE)
            return {}
        errors = await coordinator.verify_partitions(*writer, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, _refusal(error.code, adds, knows_abortable))
    return {each: _refusal(code, adds, knows_abortable) for each, code in errors.items() if code}


def _coordinator_of(coordinator: TransactionCoordinator, transactional_id: str) -> int:
    try:
        return coordinator.leader_of(transactional_id)
    except KafkaError:
        return NOBODY


async def _ask(
    node: Transactions, leader: int, writer: Writer, partitions: Sequence[TopicPartition], *, adds: bool
) -> dict[TopicPartition, ErrorCode]:
    """The same, of a coordinator on another broker; raises KafkaError if it does not say."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=writer.transactional_id,
        producer_id=writer.producer_id,
        producer_epoch=writer.producer_epoch,
        verify_only=not adds,
        topics=list(topics.values()),
    )
    try:
        answer: AddPartitionsToTxnResponse = await node.peers.ask(
            leader, "verification", AddPartitionsToTxnRequest(transactions=[asked]), TIMEOUT_MS
        )
    except ClientError as error:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
    if answer.error_code:
        denied = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        raise KafkaError(ErrorCode.INVALID_TXN_STATE if denied else ErrorCode(answer.error_code))
    return {
        (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
        for each in answer.results_by_transaction
        for topic in each.topic_results
        for result in topic.results_by_partition
    }


def _refusal(code: ErrorCode, adds: bool, knows_abortable: bool) -> Refusal:
    if code is ErrorCode.PRODUCER_FENCED:
        return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in RETRIED and not (adds and code is ErrorCode.CONCURRENT_TRANSACTIONS):
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return Refusal(code)
