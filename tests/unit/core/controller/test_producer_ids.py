import pytest

from barnabas.core.controller.producer_ids import allocate_producer_ids
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.records.metadata import ProducerIdsRecord, RegisterBrokerRecord


def image() -> MetadataImage:
    made = MetadataImage()
    made.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=7))
    return made


def test_producer_ids_come_in_blocks_of_a_thousand_from_zero() -> None:
    known = image()
    for first in (0, 1000):
        decision = allocate_producer_ids(known, AllocateProducerIdsRequest(broker_id=1, broker_epoch=7))
        assert (decision.response.producer_id_start, decision.response.producer_id_len) == (first, 1000)
        assert decision.records == [ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=first + 1000)]
        known.replay_all(decision.records)


def test_a_broker_of_another_epoch_gets_none() -> None:
    with pytest.raises(KafkaError) as caught:
        allocate_producer_ids(image(), AllocateProducerIdsRequest(broker_id=1, broker_epoch=6))
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
