"""Heartbeats of a broker: at their pace, and at once when another broker waits to be let go."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.node.broker.registration import BrokerLife, Registration
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.wire.records.metadata import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.wire.uuids import Uuid
from tests.support.waiting import until


class Controller:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def request(self, request: Any, timeout_s: float = 0.0) -> BrokerHeartbeatResponse:
        self.offsets.append(request.current_metadata_offset)
        return BrokerHeartbeatResponse()


async def test_a_broker_tells_at_once_what_it_has_applied_when_another_leaves() -> None:
    controller = Controller()
    registration = Registration(
        node_id=1,
        cluster_id="c",
        incarnation_id=Uuid.random(),
        broker_endpoints=[],
        controller_endpoints=[],
        log_dirs=[],
    )
    applied = 7
    life = BrokerLife(registration, controller, lambda: applied, heartbeat_interval_ms=600_000)  # type: ignore[arg-type]
    life.start_heartbeats()
    image = MetadataImage()
    for broker_id in (1, 2):
        image.replay(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=5, fenced=False))

    def change(broker_id: int, **fields: int) -> None:
        delta = MetadataDelta()
        image.replay(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=5, **fields), delta)
        life.follow(image, delta)

    change(1, in_controlled_shutdown=1)  # itself: it asks on its own
    change(2, fenced=-1)
    await asyncio.sleep(0.02)
    assert controller.offsets == []
    change(2, in_controlled_shutdown=1)
    applied = 9
    await until(lambda: controller.offsets == [9])
    change(2, fenced=1)  # let go
    await asyncio.sleep(0.02)
    assert controller.offsets == [9]
    await life.stop()
