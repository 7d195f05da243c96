"""Brokers whose process is gone are noticed by what their machine says, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from barnabas.core.metadata.state import BrokerState, Endpoint
from barnabas.node.controller.presence import TRIES_AFTER_S, Presence
from barnabas.node.requests import ListenerKind, Session
from barnabas.testing.reserved_port import ReservedPort
from barnabas.wire.uuids import Uuid
from tests.support.waiting import until

EPOCH = 7


class Stage:
    """A controller, and broker 2 at a port of this machine at which it may listen."""

    def __init__(self) -> None:
        self._port = ReservedPort()
        self.broker = BrokerState(
            id=2,
            epoch=EPOCH,
            incarnation_id=Uuid.random(),
            endpoints={"INTERNAL": Endpoint("INTERNAL", "127.0.0.1", self._port.number)},
        )
        self.gone: list[int] = []
        self.heard_ms = -1
        self.now_ms = 0
        self.tries = 0
        self._server: asyncio.Server | None = None
        self.presence = Presence(
            lambda broker_id: self.broker if broker_id == 2 else None,
            lambda broker, since_ms: self.heard_ms >= since_ms,
            lambda broker: self.gone.append(broker.id),
            lambda: self.now_ms,
            listener="INTERNAL",
        )
        self.session = Session(
            listener="CONTROLLER",
            kind=ListenerKind.CONTROLLER,
            security_protocol=0,
            client_host="127.0.0.1",
            client_port=1,
            routes={},
        )

    async def listen(self) -> None:
        def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.tries += 1
            writer.close()

        self._server = await asyncio.start_server(met, "127.0.0.1", self._port.number)

    async def die(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def hang_up(self) -> None:
        """The broker's connection closes."""
        assert self.session.on_closed is not None
        self.session.on_closed(self.session)

    async def settle(self) -> None:
        await until(lambda: not self.presence._tasks)


@asynccontextmanager
async def stage(*, listening: bool) -> AsyncIterator[Stage]:
    stage = Stage()
    if listening:
        await stage.listen()
    try:
        yield stage
    finally:
        stage.presence.end()
        await stage.die()
        stage._port.release()


async def test_a_broker_that_hangs_up_and_refuses_is_gone() -> None:
    async with stage(listening=True) as scene:
        scene.presence.heard(scene.session, 2, EPOCH)
        await scene.settle()
        await scene.die()
        scene.hang_up()
        await scene.settle()
        assert scene.gone == [2]


async def test_a_broker_that_hangs_up_and_listens_is_not() -> None:
    async with stage(listening=True) as scene:
        scene.presence.heard(scene.session, 2, EPOCH)
        await scene.settle()
        scene.hang_up()
        await scene.settle()
        assert scene.gone == []
        await until(lambda: scene.tries == 1 + len(TRIES_AFTER_S))


async def test_a_broker_whose_listener_closes_after_its_connections_is_gone() -> None:
    async with stage(listening=True) as scene:
        scene.presence.heard(scene.session, 2, EPOCH)
        await scene.settle()
        scene.hang_up()
        await until(lambda: scene.tries == 2)
        await scene.die()
        await scene.settle()
        assert scene.gone == [2]


async def test_an_address_that_never_answered_says_nothing_by_refusing() -> None:
    async with stage(listening=False) as scene:
        scene.presence.heard(scene.session, 2, EPOCH)
        await scene.settle()
        scene.hang_up()
        await scene.settle()
        assert scene.gone == []


@pytest.mark.parametrize("change", ["fenced", "registered anew", "heard of"])
async def test_a_broker_that_is_known_to_be_elsewhere_by_then_is_left_alone(change: str) -> None:
    async with stage(listening=True) as scene:
        scene.presence.heard(scene.session, 2, EPOCH)
        await scene.settle()
        await scene.die()
        if change == "heard of":
            scene.heard_ms = 5  # over another connection
        else:
            former = scene.broker
            scene.broker = BrokerState(
                id=2,
                epoch=EPOCH + (change == "registered anew"),
                incarnation_id=former.incarnation_id,
                endpoints=former.endpoints,
                fenced=change == "fenced",
            )
        scene.hang_up()
        await scene.settle()
        assert scene.gone == []


async def test_an_address_is_tried_once_a_connection_and_not_at_every_heartbeat() -> None:
    async with stage(listening=True) as scene:
        for _ in range(3):
            scene.presence.heard(scene.session, 2, EPOCH)
            await scene.settle()
        await until(lambda: scene.tries == 1)


@pytest.mark.parametrize(("listening", "is_heard", "gone"), [(False, False, [2]), (False, True, []), (True, False, [])])
async def test_a_new_controller_takes_for_gone_who_refuses_and_stays_silent(
    listening: bool, is_heard: bool, gone: list[int]
) -> None:
    async with stage(listening=listening) as scene:
        scene.presence.begin([scene.broker], heartbeat_interval_ms=20)
        scene.heard_ms = 10 if is_heard else -1
        await scene.settle()
        assert scene.gone == gone
