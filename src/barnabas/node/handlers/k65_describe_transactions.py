"""DescribeTransactions, version 0: the state of transactional ids that this node coordinates.

Deviations from Kafka: partitions are sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.core.transactions.records import partitions_by_topic
from barnabas.node.broker.transactions.coordinator import require_id
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Transactions


async def handle(
    context: RequestContext, request: DescribeTransactionsRequest, node: Transactions
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(context, each, node) async for each in in_turns(request.transactional_ids)]
    )


def error_response(request: DescribeTransactionsRequest, error: KafkaError) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_refuse(each, error.code) for each in request.transactional_ids]
    )


def _describe(context: RequestContext, transactional_id: str, node: Transactions) -> TransactionState:
    if not context.may(Operation.DESCRIBE, Resource.transactional_id(transactional_id)):
        return _refuse(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        require_id(transactional_id)
        found = node.transactions.find(transactional_id)
    except KafkaError as error:
        return _refuse(transactional_id, error.code)
    if found is None:
        return _refuse(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.text,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in partitions_by_topic(found)
            if context.may(Operation.DESCRIBE, Resource.topic(topic))
        ],
    )


def _refuse(transactional_id: str, error: ErrorCode) -> TransactionState:
    return TransactionState(error_code=error, transactional_id=transactional_id)
