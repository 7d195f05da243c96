"""WriteTxnMarkers, versions 1 to 2: transactions have ended, and partitions are told.

Coordinators send it, and people who have to end a transaction that hangs (`kafka-transactions abort`). 2 brought the
transaction version, by which the newer epoch of a marker is demanded. Deviations from Kafka: results come in the order
asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.coordinator.decision import Marker
from barnabas.core.coordinator.promise import Promise
from barnabas.core.security.model import Operation, Resource
from barnabas.core.transactions.state import TopicPartition
from barnabas.node.broker.coordinators.coordinator import result_of
from barnabas.node.broker.transactions.markers import write_marker
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.node.ports import EndingTransactions

Results = dict[int, dict[TopicPartition, ErrorCode]]


async def handle(
    context: RequestContext, request: WriteTxnMarkersRequest, node: EndingTransactions
) -> WriteTxnMarkersResponse:
    if not context.may(Operation.ALTER, Resource.cluster()):
        context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
    results: Results = {}
    written: list[tuple[int, TopicPartition, Promise[None]]] = []
    async for marker in in_turns(request.markers):
        errors = results.setdefault(marker.producer_id, {})
        async for topic, index in in_turns(dict.fromkeys(_partitions(marker))):
            try:
                promise = write_marker(node, topic, index, _marker(marker), marker.transaction_version)
            except KafkaError as error:
                errors[topic, index] = error.code
            else:
                errors[topic, index] = ErrorCode.NONE
                written.append((marker.producer_id, (topic, index), promise))
    async for producer_id, partition, promise in in_turns(written):
        try:
            await result_of(promise)
        except KafkaError as error:
            results[producer_id][partition] = error.code
    return WriteTxnMarkersResponse(markers=[_result(*each) async for each in in_turns(results.items())])


def error_response(request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    results: Results = {}
    for marker in request.markers:
        results.setdefault(marker.producer_id, {}).update(dict.fromkeys(_partitions(marker), error.code))
    return WriteTxnMarkersResponse(markers=[_result(*each) for each in results.items()])


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def _marker(asked: WritableTxnMarker) -> Marker:
    return Marker(asked.producer_id, asked.producer_epoch, asked.coordinator_epoch, asked.transaction_result)


def _result(producer_id: int, errors: dict[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), error in errors.items():
        result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
        topics.setdefault(topic, []).append(result)
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[WritableTxnMarkerTopicResult(name=name, partitions=each) for name, each in topics.items()],
    )
