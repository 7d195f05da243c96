"""EndTxn, versions 0 to 5: a producer's transaction is committed or aborted.

2 brought PRODUCER_FENCED, 3 compact encoding, 4 TRANSACTION_ABORTABLE, 5 a new epoch with every transaction: the answer
says with which producer id and epoch the producer goes on. It may come over another connection than the writes.

Deviations from Kafka: the answer is given when the markers are written wherever that can be done at once, so that the
next transaction rarely has to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.core.transactions.state import EPOCH_BUMPS_SINCE
from barnabas.node.broker.transactions.fencing import error_for
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Transactions

FENCED_SINCE = 2
NEW_EPOCH_SINCE = 5


async def handle(context: RequestContext, request: EndTxnRequest, node: Transactions) -> EndTxnResponse:
    context.authorize(Operation.WRITE, Resource.transactional_id(request.transactional_id))
    try:
        ended = await node.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            committed=request.committed,
            client_version=EPOCH_BUMPS_SINCE if context.api_version >= NEW_EPOCH_SINCE else 0,
        )
    except KafkaError as error:
        raise error_for(context, error, FENCED_SINCE) from error
    return EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)


def error_response(request: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)
