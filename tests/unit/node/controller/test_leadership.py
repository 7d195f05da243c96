"""The controller in a quorum of several: it leads, loses the lead, and leads again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.controller import Controller
from barnabas.node.controller.decisions import deciding
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.node.requests import own_context
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

from ..scripted_raft import ScriptedRaft

LEVEL = wire.FeatureLevelRecord(name="metadata.version", feature_level=25)


class Stage:
    def __init__(self) -> None:
        self.raft = ScriptedRaft()
        self.faults: list[str] = []
        self.loader = MetadataLoader(MetadataImage(), self.faults.append)
        self.controller = Controller(
            self.raft,
            self.loader,
            node_id=1,
            cluster_id="cluster",
            topic_configs=TopicConfigs(BrokerConfig.from_properties({"node.id": "1"})),
            deciding=deciding,
            bootstrap_records=[LEVEL],
            first_level=25,
            clock=lambda: 0,
        )
        self.raft.register(self.loader)
        self.raft.register(self.controller)

    async def lead(self, epoch: int) -> None:
        """Elected, and everything it appends at first is committed."""
        self.raft.lead(epoch)
        await until(lambda: self.controller.active is not None or bool(self.raft.uncommitted))
        while self.controller.active is None:
            self.raft.commit()
            await asyncio.sleep(0)

    def create(self, name: str, deadline: float | None = None) -> asyncio.Future[Any]:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        context = own_context(request)
        context.deadline = deadline
        return asyncio.ensure_future(self.controller.execute(context, request))


async def until(condition: Callable[[], bool]) -> None:
    limit = asyncio.get_running_loop().time() + 10
    while not condition():
        assert asyncio.get_running_loop().time() < limit, "it never happened"
        await asyncio.sleep(0)


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def refused(answer: asyncio.Future[Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await answer
    return caught.value.code


def broker(broker_id: int, epoch: int) -> Record:
    return wire.RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, fenced=False)


async def led() -> Stage:
    """Node 1 leads in epoch 1 and knows a broker."""
    stage = Stage()
    await stage.lead(1)
    assert stage.controller.active is not None
    registered = asyncio.ensure_future(
        stage.controller.active.decide(lambda image: ControllerDecision([broker(1, image.offset + 1)], None))
    )
    await turns()
    stage.raft.commit()
    await registered
    return stage


async def test_without_the_lead_nothing_is_decided() -> None:
    stage = Stage()
    assert await refused(stage.create("early")) is ErrorCode.NOT_CONTROLLER
    stage.raft.follow(2, 1, [LEVEL], [broker(2, 2)])
    assert await refused(stage.create("elsewhere")) is ErrorCode.NOT_CONTROLLER
    await stage.loader.reached(1)
    assert set(stage.loader.image.brokers) == {2}, "the image follows whoever leads"


async def test_the_answer_comes_with_the_commit_and_not_before() -> None:
    stage = await led()
    answer = stage.create("orders")
    await turns()
    assert stage.controller.active is not None
    assert "orders" in stage.controller.active.image.topics
    assert "orders" not in stage.loader.image.topics
    assert not answer.done()
    stage.raft.commit()
    assert [each.error_code for each in (await answer).topics] == [0]


async def test_a_commit_answers_what_it_covers_and_no_more() -> None:
    stage = await led()
    first = stage.create("first")
    await turns()
    end_offset = stage.raft.end_offset
    second = stage.create("second")
    await turns()
    stage.raft.commit(end_offset)
    await first
    await turns()
    assert not second.done()
    stage.raft.commit()
    await second


async def test_who_loses_the_lead_tells_everyone_who_waits_and_forgets_what_was_not_committed() -> None:
    stage = await led()
    answers = [stage.create("lost"), stage.create("lost-too")]
    await turns()
    committed = stage.raft.high_watermark
    stage.raft.follow(2, 2, [broker(2, committed)])
    assert [await refused(answer) for answer in answers] == [ErrorCode.NOT_CONTROLLER] * 2
    assert stage.controller.active is None
    assert await refused(stage.create("later")) is ErrorCode.NOT_CONTROLLER
    await stage.loader.reached(committed)
    assert not stage.loader.image.topics
    assert set(stage.loader.image.brokers) == {1, 2}


async def test_the_next_term_begins_with_what_the_others_have_committed_meanwhile() -> None:
    stage = await led()
    lost = stage.create("orders")
    await turns()
    topic_id = Uuid(b"the-topic-of-two")
    theirs = [
        wire.TopicRecord(name="theirs", topic_id=topic_id),
        wire.PartitionRecord(topic_id=topic_id, partition_id=0, replicas=[1], isr=[1], leader=1),
    ]
    stage.raft.follow(2, 2, theirs)
    await refused(lost)
    await stage.lead(3)
    assert stage.controller.active is not None
    assert stage.controller.active.epoch == 3
    assert set(stage.controller.active.image.topics) == {"theirs"}
    again, twice = stage.create("orders"), stage.create("theirs")
    await turns()
    assert stage.raft.uncommitted[0].epoch == 3
    stage.raft.commit()
    assert (await again).topics[0].error_code == ErrorCode.NONE
    assert (await twice).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_term_that_ends_before_it_began_takes_no_commands() -> None:
    stage = Stage()
    stage.raft.lead(1)
    await until(lambda: bool(stage.raft.uncommitted))  # its first records
    stage.raft.follow(2, 2, [LEVEL])
    await turns()
    assert stage.controller.active is None
    assert await refused(stage.create("orders")) is ErrorCode.NOT_CONTROLLER


async def test_a_transaction_that_the_last_leader_left_open_is_aborted_first() -> None:
    stage = Stage()
    stage.raft.follow(2, 1, [LEVEL], [wire.BeginTransactionRecord(name="half"), broker(2, 2)])
    await stage.lead(2)
    assert stage.controller.active is not None
    assert stage.controller.active.image.transaction is None
    assert not stage.controller.active.image.brokers


async def test_who_waits_too_long_for_the_quorum_is_told_so_and_the_change_may_still_come() -> None:
    stage = await led()
    answer = stage.create("orders", deadline=asyncio.get_running_loop().time() + 0.01)
    assert await refused(answer) is ErrorCode.REQUEST_TIMED_OUT
    stage.raft.commit()
    await stage.loader.reached(stage.raft.high_watermark - 1)
    assert "orders" in stage.loader.image.topics
