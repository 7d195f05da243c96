"""AddPartitionsToTxn, versions 0 to 5: partitions that a producer is going to write to join its transaction.

2 brought PRODUCER_FENCED, 3 compact encoding. 4 and 5 are between brokers: transactions of many producers in one
request, and the question whether partitions belong to a transaction already.

If one partition cannot be added, none is: the others are answered with OPERATION_NOT_ATTEMPTED. Deviations from Kafka:
results come in the order asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import INTERNAL_TOPICS
from barnabas.core.security.model import Operation, Resource
from barnabas.core.transactions.state import EPOCH_BUMPS_SINCE, TopicPartition
from barnabas.node.requests import RequestContext
from barnabas.node.transactions.fencing import told_code
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node

BROKERS_SINCE = 4
FENCED_SINCE = 2

Errors = Mapping[TopicPartition, ErrorCode]


async def handle(context: RequestContext, request: AddPartitionsToTxnRequest, node: Node) -> AddPartitionsToTxnResponse:
    if context.api_version >= BROKERS_SINCE:
        context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
        results = [
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=_results(each.topics, await _add(context, each, node)),
            )
            for each in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    errors = await _add(context, asked, node)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(asked.topics, errors))


def error_response(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    def everything(topics: list[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopicResult]:
        return _results(topics, dict.fromkeys(_partitions(topics), error.code))

    if not request.transactions:
        topics = request.v3_and_below_topics
        return AddPartitionsToTxnResponse(error_code=error.code, results_by_topic_v3_and_below=everything(topics))
    return AddPartitionsToTxnResponse(error_code=error.code)


async def _add(context: RequestContext, asked: AddPartitionsToTxnTransaction, node: Node) -> Errors:
    partitions = _partitions(asked.topics)
    is_client = context.api_version < BROKERS_SINCE
    if is_client and not context.may(Operation.WRITE, Resource.transactional_id(asked.transactional_id)):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    wrong = {each: error for each in partitions if (error := _error(context, node, each, is_client))}
    if wrong:
        return dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong
    producer = (asked.transactional_id, asked.producer_id, asked.producer_epoch)
    try:
        if asked.verify_only:
            return node.transactions.verify_partitions(*producer, partitions)
        client_version = 0 if is_client else EPOCH_BUMPS_SINCE
        await node.transactions.add_partitions(*producer, partitions, client_version=client_version)
    except KafkaError as error:
        return dict.fromkeys(partitions, told_code(context, error.code, FENCED_SINCE))
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _error(context: RequestContext, node: Node, partition: TopicPartition, is_client: bool) -> ErrorCode:
    """Why a partition cannot be added, NONE if it can."""
    topic, index = partition
    if is_client and (topic in INTERNAL_TOPICS or not context.may(Operation.WRITE, Resource.topic(topic))):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = node.image.topics.get(topic)
    if known is None or index not in known.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _results(topics: list[AddPartitionsToTxnTopic], errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    indexes: dict[str, dict[int, None]] = {}
    for topic in topics:
        indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    return [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=errors[name, index])
                for index in found
            ],
        )
        for name, found in indexes.items()
        if found
    ]
