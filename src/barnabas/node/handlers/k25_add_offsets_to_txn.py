"""AddOffsetsToTxn, versions 0 to 4: the offsets of a group are going to be committed with a producer's transaction.

2 brought PRODUCER_FENCED, 3 compact encoding, 4 TRANSACTION_ABORTABLE. What is added is the partition of
__consumer_offsets that the group belongs to; it is made if there is none yet. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.transactions.fencing import error_for
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from barnabas.node.ports import Coordinators

FENCED_SINCE = 2


async def handle(
    context: RequestContext, request: AddOffsetsToTxnRequest, node: Coordinators
) -> AddOffsetsToTxnResponse:
    context.authorize(Operation.WRITE, Resource.transactional_id(request.transactional_id))
    context.authorize(Operation.READ, Resource.group(request.group_id))
    groups = node.groups
    await groups.create_topic()
    try:
        await node.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(groups.topic, groups.partition_for(request.group_id))],
        )
    except KafkaError as error:
        raise error_for(context, error, FENCED_SINCE) from error
    return AddOffsetsToTxnResponse()


def error_response(request: AddOffsetsToTxnRequest, error: KafkaError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code)
