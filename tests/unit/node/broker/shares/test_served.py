"""A served share partition whose state is written while its coordinator moves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.share.batches import StateBatch
from barnabas.core.share.partition import Acknowledgement, RecordState, SharePartition, Taking
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.shares import persister
from barnabas.node.broker.shares.persister import Known
from barnabas.node.broker.shares.served import ServedPartition
from barnabas.node.broker.shares.settings import DeliverySettings
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

ACCEPT = 1


class MovingCoordinator:
    """Refuses some writes first."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.written: list[tuple[int, list[StateBatch]]] = []
        self.has_written = asyncio.Event()

    async def write(
        self, key: ShareKey, known: Known, start_offset: int, complete: int, batches: list[StateBatch]
    ) -> None:
        await asyncio.sleep(0)
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self.written.append((start_offset, batches))
        self.has_written.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "BACKOFF_MS", 1)
    monkeypatch.setattr(persister, "BACKOFF_MAX_MS", 1)


def served_by(coordinator: MovingCoordinator) -> ServedPartition:
    state = SharePartition(0)
    state.acquire("anna", 0, 9, read_from=0, taking=Taking(10, 5), most_in_flight=100, locked_until_ms=30_000)
    partition: Any = SimpleNamespace(is_gone=False, is_leader=True, leader_epoch=0)
    store: Any = coordinator
    return ServedPartition(
        ShareKey("g", Uuid(b"t" * 16), 0), partition, Known(0, 0), state, store, DeliverySettings, lambda: 0
    )


def test_after_a_refusal_the_whole_state_is_written() -> None:
    coordinator = MovingCoordinator(refusals=1)

    async def story() -> None:
        served = served_by(coordinator)
        first = served.acknowledge("anna", [Acknowledgement(5, 5, [ACCEPT])])
        second = served.acknowledge("anna", [Acknowledgement(7, 7, [ACCEPT])])
        await asyncio.gather(first, second)

    asyncio.run(story())
    done = RecordState.ACKNOWLEDGED
    assert coordinator.written == [
        (0, [StateBatch(7, 7, done, 1)]),
        (0, [StateBatch(5, 5, done, 1), StateBatch(7, 7, done, 1)]),
    ]


def test_what_was_said_is_written_though_the_client_hung_up() -> None:
    coordinator = MovingCoordinator(refusals=2)

    async def story() -> None:
        asking = asyncio.ensure_future(served_by(coordinator).acknowledge("anna", [Acknowledgement(0, 3, [ACCEPT])]))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait_for(coordinator.has_written.wait(), 10)

    asyncio.run(story())
    assert coordinator.written == [(4, [])]
