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
from barnabas.node.broker.transactions.fencing import code_for
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Transactions

BROKERS_SINCE = 4
FENCED_SINCE = 2

Errors = Mapping[TopicPartition, ErrorCode]


async def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest, node: Transactions
) -> AddPartitionsToTxnResponse:
    if context.api_version >= BROKERS_SINCE:
        context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
        results = [
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=await _results(await _add(context, each, node)),
            )
            async for each in in_turns(request.transactions)
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    results_by_topic = await _results(await _add(context, asked, node))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results_by_topic)


def error_response(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    if not request.transactions:
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error.code)
                    for index in dict.fromkeys(topic.partitions)
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(error_code=error.code, results_by_topic_v3_and_below=topics)
    return AddPartitionsToTxnResponse(error_code=error.code)


async def _add(context: RequestContext, asked: AddPartitionsToTxnTransaction, node: Transactions) -> Errors:
    partitions = list(
        {(topic.name, index): None async for topic in in_turns(asked.topics) for index in topic.partitions}
    )
    is_client = context.api_version < BROKERS_SINCE
    if is_client and not context.may(Operation.WRITE, Resource.transactional_id(asked.transactional_id)):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    wrong = {each: error async for each in in_turns(partitions) if (error := _error(context, node, each, is_client))}
    if wrong:
        return dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | wrong
    producer = (asked.transactional_id, asked.producer_id, asked.producer_epoch)
    try:
        if asked.verify_only:
            return await node.transactions.verify_partitions(*producer, partitions)
        client_version = 0 if is_client else EPOCH_BUMPS_SINCE
        await node.transactions.add_partitions(*producer, partitions, client_version=client_version)
    except KafkaError as error:
        return dict.fromkeys(partitions, code_for(context, error.code, FENCED_SINCE))
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _error(context: RequestContext, node: Transactions, partition: TopicPartition, is_client: bool) -> ErrorCode:
    """Why a partition cannot be added, NONE if it can."""
    topic, index = partition
    if is_client and (topic in INTERNAL_TOPICS or not context.may(Operation.WRITE, Resource.topic(topic))):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = node.image.topics.get(topic)
    if known is None or index not in known.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


async def _results(errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    results: dict[str, AddPartitionsToTxnTopicResult] = {}
    async for (name, index), code in in_turns(errors.items()):
        if name not in results:
            results[name] = AddPartitionsToTxnTopicResult(name=name)
        results[name].results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return list(results.values())
