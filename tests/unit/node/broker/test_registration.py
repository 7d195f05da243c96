"""Heartbeats of a broker: at their pace, and at once when another broker waits to be let go."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.node.broker.registration import BrokerLife, Registration
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.wire.records.metadata import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.wire.uuids import Uuid
from tests.support.waiting import until


class Controller:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refusals: list[ErrorCode] = []

    async def request(self, request: Any, timeout_s: float = 0.0) -> Any:
        self.asked.append(request)
        if self.refusals:
            raise KafkaError(self.refusals.pop(0), "")
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=12)
        return BrokerHeartbeatResponse()

    @property
    def offsets(self) -> list[int]:
        return [each.current_metadata_offset for each in self.asked]


def registration_with(log_dirs: list[Uuid]) -> Registration:
    return Registration(
        node_id=1,
        cluster_id="c",
        incarnation_id=Uuid.random(),
        broker_endpoints=[],
        controller_endpoints=[],
        log_dirs=log_dirs,
    )


async def test_a_directory_that_failed_while_no_controller_was_there_is_told_of_with_the_next_heartbeats() -> None:
    """Otherwise clients would be sent here for its partitions until the node is started anew."""
    kept, lost = Uuid.random(), Uuid.random()
    controller = Controller()
    life = BrokerLife(registration_with([kept, lost]), controller, heartbeat_interval_ms=1)  # type: ignore[arg-type]
    controller.refusals = [ErrorCode.REQUEST_TIMED_OUT]
    await life.report_lost_directory(lost, "/data/2")
    life.start_heartbeats()
    await until(lambda: len(controller.asked) > 2)
    assert all(each.offline_log_dirs == [lost] for each in controller.asked)
    controller.refusals = [ErrorCode.STALE_BROKER_EPOCH]
    await until(lambda: any(isinstance(each, BrokerRegistrationRequest) for each in controller.asked))
    await life.stop()
    (again,) = (each for each in controller.asked if isinstance(each, BrokerRegistrationRequest))
    assert again.log_dirs == [kept], "it does not come back by registering again"


async def test_a_broker_tells_at_once_what_it_has_applied_when_another_leaves() -> None:
    controller = Controller()
    registration = registration_with([])
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
