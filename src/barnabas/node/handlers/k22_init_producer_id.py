"""InitProducerId, versions 0 to 5: a producer id and epoch, for an idempotent or a transactional producer.

2 brought compact encoding, 3 the id and epoch that a producer already has, 4 PRODUCER_FENCED, 5 the newer transactions.
A transaction that is open is aborted first, and who comes for its id is told CONCURRENT_TRANSACTIONS meanwhile.

Deviations from Kafka: the first producer waits for its id instead of being told to try again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource, ResourceType
from barnabas.core.transactions.decide import ProducerIdAndEpoch
from barnabas.node.broker.transactions.fencing import error_for
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Transactions

NONE = -1
FENCED_SINCE = 4


async def handle(context: RequestContext, request: InitProducerIdRequest, node: Transactions) -> InitProducerIdResponse:
    if request.transactional_id is None:
        # Who may write to any topic may also do it idempotently.
        if not context.may_any(Operation.WRITE, ResourceType.TOPIC):
            context.authorize(Operation.IDEMPOTENT_WRITE, Resource.cluster())
    else:
        context.authorize(Operation.WRITE, Resource.transactional_id(request.transactional_id))
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A producer names both its id and its epoch, or neither.")
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A transactional id must not be empty.")
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await node.transactions.new_producer_id(), producer_epoch=0)
    expected = None
    if request.producer_id != NONE:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        given = await node.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
    except KafkaError as error:
        raise error_for(context, error, FENCED_SINCE) from error
    return InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.producer_epoch)


def error_response(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
