"""Transactions as an administrator asks about them: of coordinators, and of the leaders they are written to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

ONGOING = "Ongoing"


class ListedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: list[TopicPartition]


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None


class OpenTransaction(NamedTuple):
    topic: str
    partition: int
    producer: ActiveProducer


def list_transactions(
    cluster: Cluster,
    *,
    longer_than_ms: int = -1,
    pattern: str | None = None,
    producer_ids: Iterable[int] = (),
) -> list[ListedTransaction]:
    from barnabas.wire.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        producer_id_filters=list(producer_ids), duration_filter=longer_than_ms, transactional_id_pattern=pattern
    )
    found: list[ListedTransaction] = []
    for node_id in sorted(cluster.metadata([]).brokers):
        answer = cluster.ask_node(node_id, request)
        if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise Refused(answer.error_code, f"{pattern} is not a regular expression")
        if answer.error_code:
            raise Refused(answer.error_code, f"Node {node_id} does not list its transactions")
        found += [
            ListedTransaction(each.transactional_id, node_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]
    return sorted(found)


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest

    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (described,) = cluster.ask_coordinator("transaction", transactional_id, request).transaction_states
    if described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise Refused(described.error_code, f"There is no transactional id {transactional_id}")
    if described.error_code:
        raise Refused(described.error_code, f"The transactional id {transactional_id} cannot be described")
    return TransactionDescription(
        transactional_id,
        cluster.coordinator("transaction", transactional_id),
        described.producer_id,
        described.producer_epoch,
        described.transaction_state,
        described.transaction_timeout_ms,
        described.transaction_start_time_ms if described.transaction_start_time_ms >= 0 else None,
        sorted((topic.topic, index) for topic in described.topics for index in topic.partitions),
    )


def describe_producers(
    cluster: Cluster, topic: str, partition: int, broker_id: int | None = None
) -> list[ActiveProducer]:
    from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    if broker_id is None:
        answer = cluster.ask_leader(topic, partition, request)
    else:
        answer = cluster.ask_node(broker_id, request)
    ((described,),) = (each.partitions for each in answer.topics)
    if described.error_code:
        raise Refused(
            described.error_code, described.error_message or f"The producers of {topic}-{partition} are unknown"
        )
    return [_active(each) for each in described.active_producers]


def _active(state: Any) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.coordinator_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
    )


def open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, before_ms: int, broker_id: int | None = None
) -> list[OpenTransaction]:
    """What was begun in these partitions, last written to before a point in time, and not ended."""
    found: list[OpenTransaction] = []
    for topic, index in partitions:
        for producer in describe_producers(cluster, topic, index, broker_id):
            if producer.transaction_start_offset is not None and producer.last_timestamp_ms <= before_ms:
                found.append(OpenTransaction(topic, index, producer))
    return found


def hanging(cluster: Cluster, candidates: list[OpenTransaction]) -> list[OpenTransaction]:
    """Those that no coordinator knows of: nobody will ever end them."""
    producer_ids = {candidate.producer.producer_id for candidate in candidates}
    if not producer_ids:
        return []
    known: dict[int, TransactionDescription] = {}
    for listed in list_transactions(cluster, producer_ids=producer_ids):
        known[listed.producer_id] = describe_transaction(cluster, listed.transactional_id)
    return [each for each in candidates if not _is_known(each, known.get(each.producer.producer_id))]


def _is_known(candidate: OpenTransaction, transaction: TransactionDescription | None) -> bool:
    return (
        transaction is not None
        and (candidate.topic, candidate.partition) in transaction.partitions
        and transaction.producer_epoch <= candidate.producer.producer_epoch
    )


def abort(
    cluster: Cluster, topic: str, partition: int, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Writes the marker that ends a transaction into its partition, past the coordinator."""
    from barnabas.wire.messages.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
    )
    answer = cluster.ask_leader(topic, partition, WriteTxnMarkersRequest(markers=[marker]))
    for result in answer.markers:
        for written in result.topics:
            for each in written.partitions:
                if each.error_code:
                    raise Refused(each.error_code, f"The transaction in {topic}-{partition} was not aborted")


def fence(cluster: Cluster, transactional_id: str) -> None:
    """Takes the next epoch of a transactional id: what its producer had open is aborted."""
    from barnabas.client.cluster import Attempts
    from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1)
    attempts = Attempts(cluster.settings)
    while True:
        answer = cluster.ask_coordinator("transaction", transactional_id, request)
        # The coordinator is ending what was open, and answers with a new epoch once that is done.
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or not attempts.pause():
            break
    if answer.error_code:
        raise Refused(answer.error_code, f"The transaction of {transactional_id} was not ended")
