"""In which directory a replica lies is told until the controller has heard it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from barnabas.core.controller.directories import UNASSIGNED
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.broker import directory_assignment
from barnabas.node.broker.directory_assignment import DirectoryAssignment
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.metadata import PartitionRecord, RegisterBrokerRecord, TopicRecord
from barnabas.wire.uuids import Uuid
from tests.support.waiting import until

TOPIC, DIRECTORY = Uuid.random(), Uuid.random()


class Broker:
    def __init__(self) -> None:
        self.refusals = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH]
        self.told: list[Mapping[tuple[Uuid, int], Uuid]] = []

    async def assign_replicas(self, directories: Mapping[tuple[Uuid, int], Uuid]) -> None:
        if self.refusals:
            raise KafkaError(self.refusals.pop(0), "")
        self.told.append(directories)


async def test_what_the_controller_did_not_hear_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica of which it knows no directory is taken for a new, empty one where its disk is missing at a start."""
    monkeypatch.setattr(directory_assignment, "RETRY_S", 0.001)
    image = MetadataImage()
    image.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=5, log_dirs=[DIRECTORY, Uuid.random()]))
    image.replay(TopicRecord(name="t", topic_id=TOPIC))
    image.replay(PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1], isr=[1], leader=1))
    log_dirs = SimpleNamespace(
        get=lambda topic, index: topic, dir_of=lambda log: SimpleNamespace(directory_id=DIRECTORY)
    )
    broker = Broker()
    assignment = DirectoryAssignment(1, log_dirs, broker)  # type: ignore[arg-type]
    assignment.start(image)
    await until(lambda: bool(broker.told))
    assert broker.told == [{(TOPIC, 0): DIRECTORY}]
    await assignment.stop()


@pytest.mark.parametrize(("is_moving", "is_told"), [(True, False), (False, True)])
async def test_a_replica_that_does_not_move_any_more_is_told_of_where_it_is(is_moving: bool, is_told: bool) -> None:
    """The directory to which it was to move, and of which the controller knows already, has failed."""
    target = Uuid.random()
    image = MetadataImage()
    image.replay(TopicRecord(name="t", topic_id=TOPIC))
    image.replay(PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1], isr=[1], leader=1, directories=[target]))
    future = SimpleNamespace(offline=not is_moving, directory_id=target)
    log_dirs = SimpleNamespace(
        get=lambda topic, index: SimpleNamespace(directory_id=DIRECTORY),
        future_of=lambda topic, index: future,
        dir_of=lambda log: SimpleNamespace(directory_id=log.directory_id),
    )
    broker = Broker()
    broker.refusals.clear()
    assignment = DirectoryAssignment(1, log_dirs, broker)  # type: ignore[arg-type]
    assignment.start(image)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert broker.told == ([{(TOPIC, 0): DIRECTORY}] if is_told else [])
    await assignment.stop()


@pytest.mark.parametrize(
    ("known", "is_told"),
    [(DIRECTORY, False), (UNASSIGNED, False), (Uuid.random(), True)],
    ids=["its own", "none", "another"],
)
async def test_a_broker_with_one_directory_tells_of_replicas_on_a_replaced_disk(known: Uuid, is_told: bool) -> None:
    image = MetadataImage()
    image.replay(TopicRecord(name="t", topic_id=TOPIC))
    for index, replicas in enumerate(([1, 2], [3, 2])):
        record = PartitionRecord(partition_id=index, topic_id=TOPIC, replicas=replicas, isr=[2], leader=2)
        record.directories = [known, Uuid.random()]
        image.replay(record)
    log_dirs = SimpleNamespace(
        get=lambda topic, index: topic,
        future_of=lambda topic, index: None,
        dir_of=lambda log: SimpleNamespace(directory_id=DIRECTORY),
    )
    broker = Broker()
    broker.refusals.clear()
    assignment = DirectoryAssignment(1, log_dirs, broker, chooses=False)  # type: ignore[arg-type]
    assignment.start(image)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert broker.told == ([{(TOPIC, 0): DIRECTORY}] if is_told else [])
    await assignment.stop()
