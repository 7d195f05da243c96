"""`metadata.max.idle.interval.ms`: the records of a leader to whom nobody says anything, in a time that only jumps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.active import ActiveController
from barnabas.node.controller.controller import Controller
from barnabas.node.controller.decisions import deciding
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.metadata import FeatureLevelRecord, NoOpRecord, RegisterBrokerRecord
from barnabas.wire.schema import Record

from ..scripted_raft import ScriptedRaft

LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=25)


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time goes on only when everybody waits for it, and then at once."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        super().__init__(Jumping(self))

    def time(self) -> float:
        return self.now_s


class Jumping(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None:
            self.loop.now_s += max(timeout, 0)
        return super().select(0 if timeout is not None else None)


class TimedRaft(ScriptedRaft):
    """Commits at once, and knows when what was appended."""

    def __init__(self) -> None:
        super().__init__()
        self.appended: list[tuple[float, Record]] = []
        self.refuses = False

    def append(self, records: Sequence[Record], epoch: int, *, level: int) -> int:
        if self.refuses:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "not now")
        loop = asyncio.get_running_loop()
        offset = super().append(records, epoch, level=level)
        self.appended += [(round(loop.time() - 1000, 3), each) for each in records]
        loop.call_soon(self.commit)
        return offset

    def idle_records(self) -> list[float]:
        """When they were appended."""
        return [at for at, record in self.appended if isinstance(record, NoOpRecord)]


class Stage:
    def __init__(self, idle_ms: int) -> None:
        self.raft = TimedRaft()
        loader = MetadataLoader(MetadataImage(), pytest.fail)
        self.controller = Controller(
            self.raft,
            loader,
            node_id=1,
            cluster_id="cluster",
            topic_configs=TopicConfigs(
                BrokerConfig.from_properties({"node.id": "1", "metadata.max.idle.interval.ms": str(idle_ms)})
            ),
            deciding=deciding,
            bootstrap_records=[LEVEL],
            first_level=25,
            clock=lambda: 0,
        )
        self.raft.register(loader)
        self.raft.register(self.controller)

    async def lead(self) -> ActiveController:
        self.raft.lead(1)
        await self.controller.until_active()
        assert self.controller.active is not None
        return self.controller.active


def run(told: Callable[[Stage], Coroutine[Any, Any, None]], idle_ms: int = 500) -> None:
    stage = Stage(idle_ms)
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(told(stage))


def register(image: MetadataImage) -> ControllerDecision[None]:
    record = RegisterBrokerRecord(broker_id=1, broker_epoch=image.offset + 1, fenced=True)
    return ControllerDecision([record], None)


@pytest.mark.parametrize("idle_ms", [50, 500, 2000])
def test_an_idle_leader_writes_a_record_each_interval(idle_ms: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.lead()
        await asyncio.sleep(10.5 * idle_ms / 1000)
        assert stage.raft.idle_records() == [round(count * idle_ms / 1000, 3) for count in range(1, 11)]

    run(told, idle_ms)


def test_the_interval_begins_with_whatever_was_written_last() -> None:
    async def told(stage: Stage) -> None:
        term = await stage.lead()
        for _ in range(20):  # busy for 4 s
            await asyncio.sleep(0.2)
            await term.decide(register)
        assert not stage.raft.idle_records()
        await asyncio.sleep(1.6)
        assert stage.raft.idle_records() == [4.5, 5.0, 5.5]

    run(told)


@pytest.mark.parametrize("is_alone", [True, False])
def test_neither_a_quorum_of_one_nor_an_interval_of_zero_has_such_records(is_alone: bool) -> None:
    async def told(stage: Stage) -> None:
        stage.raft.is_alone = is_alone
        await stage.lead()
        await asyncio.sleep(60)
        assert not stage.raft.idle_records()

    run(told, 500 if is_alone else 0)


def test_who_has_lost_the_lead_writes_no_more_and_who_could_not_write_goes_on() -> None:
    async def told(stage: Stage) -> None:
        await stage.lead()
        await asyncio.sleep(0.6)
        stage.raft.refuses = True
        await asyncio.sleep(1)
        stage.raft.refuses = False
        await asyncio.sleep(1)
        assert stage.raft.idle_records() == [0.5, 2.0, 2.5]
        stage.raft.follow(2, 2, [])
        await asyncio.sleep(60)
        assert stage.raft.idle_records() == [0.5, 2.0, 2.5]

    run(told)
