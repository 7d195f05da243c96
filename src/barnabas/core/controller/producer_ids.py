"""AllocateProducerIds: blocks of producer ids, each given to one broker and never again."""

from __future__ import annotations

from barnabas.core.controller.brokers import registered
from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.wire.records.metadata import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> ControllerDecision[AllocateProducerIdsResponse]:
    broker = registered(image, request.broker_id, request.broker_epoch)
    first = max(image.next_producer_id, 0)
    record = ProducerIdsRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return ControllerDecision([record], response)
