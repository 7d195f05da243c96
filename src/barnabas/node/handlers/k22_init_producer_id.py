"""InitProducerId, versions 0 to 5: an id for an idempotent producer.

2 brought compact encoding, 3 the id and epoch that a producer already has, 4 PRODUCER_FENCED, 5 the newer transactions.

Deviations from Kafka: a transactional id is answered with COORDINATOR_NOT_AVAILABLE as long as there is no transaction
coordinator; the first producer waits for its id instead of being told to try again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.node.node import Node

NONE = -1


async def handle(context: RequestContext, request: InitProducerIdRequest, node: Node) -> InitProducerIdResponse:
    if request.transactional_id is None:
        context.authorize(Operation.IDEMPOTENT_WRITE, Resource.cluster())
    else:
        context.authorize(Operation.WRITE, Resource.transactional_id(request.transactional_id))
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A producer names both its id and its epoch, or neither.")
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A transactional id must not be empty.")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There is no transaction coordinator yet.")
    try:
        producer_id = await node.producer_ids.next()
    except KafkaError as error:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def error_response(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
