"""The controller: epochs, group commit, failures."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata import decide
from barnabas.core.metadata.records import FORMATTED_FEATURES, MetadataError
from barnabas.core.metadata.state import Endpoint, MetadataDelta, MetadataImage
from barnabas.node.raft.batches import MetadataBatch, read_batches
from barnabas.node.raft.log import MetadataLog
from barnabas.node.raft.voters import voters_record
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.raft import KRaftVersionRecord, LeaderChangeMessage, VotersRecord

if TYPE_CHECKING:
    from conftest import Directory, Member


def written(directory: Directory) -> list[MetadataBatch]:
    return [batch for _, batch in read_batches((directory.log / "00000000000000000000.log").read_bytes())]


async def until(condition: Callable[[], bool]) -> None:
    limit = asyncio.get_running_loop().time() + 10
    while not condition():
        assert asyncio.get_running_loop().time() < limit, "it never happened"
        await asyncio.sleep(0.001)


def kinds(batch: MetadataBatch) -> list[type]:
    return [type(record) for record in batch.records]


async def test_the_first_epoch_begins_with_leader_voters_bootstrap_and_registrations(directory: Directory) -> None:
    controller = await directory.activate(directory.open())
    batches = written(directory)
    assert [kinds(batch) for batch in batches] == [
        [LeaderChangeMessage, KRaftVersionRecord, VotersRecord],
        [
            wire.BeginTransactionRecord,
            *[wire.FeatureLevelRecord] * 6,
            wire.ConfigRecord,  # the cluster's min.insync.replicas
            wire.EndTransactionRecord,
        ],
        [wire.RegisterControllerRecord],
        [wire.RegisterBrokerRecord],
    ]
    assert {batch.epoch for batch in batches} == {1}
    assert controller.raft.epoch == 1
    assert controller.broker.epoch == 13 == batches[3].base_offset
    assert controller.image == controller.working
    assert (controller.image.offset, controller.image.epoch) == (13, 1)
    assert controller.image.features == {
        "metadata.version": 30,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    broker = controller.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.log_dirs) == (13, False, [directory.id])
    assert broker.endpoints == {"PLAINTEXT": directory.broker}
    assert '"leaderEpoch":1,' in (directory.log / "quorum-state").read_text()
    await controller.stop()


async def test_each_start_is_a_new_epoch_that_leads_its_partitions_anew(directory: Directory) -> None:
    async with directory.running() as controller:
        await controller.submit(directory.create_topic("orders"))
        assert controller.image.topics["orders"].partitions[0].leader_epoch == 0
    loaded = directory.load()
    assert (loaded.image.brokers[1].fenced, loaded.image.topics["orders"].partitions[0].leader) == (True, -1)
    async with directory.running() as controller:
        partition = controller.image.topics["orders"].partitions[0]
        assert (controller.raft.epoch, partition.leader, partition.leader_epoch, partition.isr) == (2, 1, 2, [1])
        assert controller.image.brokers[1].epoch == controller.broker.epoch > 7
    epochs = [batch.epoch for batch in written(directory) if kinds(batch)[0] is LeaderChangeMessage]
    assert epochs == [1, 2]
    assert next(kinds(batch) for batch in written(directory) if batch.epoch == 2) == [LeaderChangeMessage]


async def test_a_cluster_keeps_the_features_that_it_was_formatted_with(
    empty: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Apache Kafka: a feature that was left out, or formatted at 0, waits until somebody raises it."""
    with monkeypatch.context() as before:
        older = {name: level for name, level in FORMATTED_FEATURES.items() if name != "group.version"}
        before.setattr(decide, "FORMATTED_FEATURES", older)
        empty.claim()
        async with empty.running() as controller:
            assert "group.version" not in controller.image.features
    async with empty.running() as controller:
        assert "group.version" not in controller.image.features
    assert [wire.FeatureLevelRecord] not in [kinds(batch) for batch in written(empty) if batch.epoch == 2]


@pytest.mark.parametrize("level", [0, 1])
async def test_a_feature_that_was_lowered_stays_lowered(directory: Directory, level: int) -> None:
    async with directory.running() as controller:
        await controller.submit(lambda image: ControllerDecision([lowered(level)], None))
    async with directory.running() as controller:
        assert controller.image.features.get("transaction.version", 0) == level


def lowered(level: int) -> wire.FeatureLevelRecord:
    return wire.FeatureLevelRecord(name="transaction.version", feature_level=level)


async def test_after_a_kill_the_next_start_replaces_the_registration_at_once(directory: Directory) -> None:
    controller = await directory.activate(directory.open())
    await controller.submit(directory.create_topic("orders"))
    await controller.raft.kill()
    async with directory.running() as again:
        assert again.raft.epoch == 2
        assert again.image.topics["orders"].partitions[0].leader_epoch == 1
        assert not again.image.brokers[1].fenced


async def test_a_controller_on_another_port_tells_the_voters(directory: Directory) -> None:
    async with directory.running():
        pass
    directory.controller = Endpoint("CONTROLLER", "127.0.0.1", 19093)
    async with directory.running() as controller:
        expected = voters_record(1, directory.id, [directory.controller])
        assert controller.raft.quorum().voters_record == expected
        [first, *_] = [batch for batch in written(directory) if batch.epoch == 2]
        assert kinds(first) == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert directory.load().voters == expected


async def test_a_decision_is_one_batch_and_answered_when_everyone_has_applied_it(directory: Directory) -> None:
    async with directory.running() as controller:
        events: list[str] = []

        async def slowly(delta: MetadataDelta) -> None:
            assert "orders" in controller.image.topics
            await asyncio.sleep(0)
            events.append(f"applied {delta.partitions[0].topic}")

        controller.loader.add_publisher("slow one", slowly)
        controller.loader.add_publisher("quick one", lambda delta: events.append(f"told {len(delta.created_topics)}"))
        assert await controller.submit(directory.create_topic("orders")) == "created"
        events.append("answered")
        assert events == ["applied orders", "told 1", "answered"]
        assert kinds(written(directory)[-1]) == [wire.TopicRecord, wire.PartitionRecord]
    assert events[3:] == []


class Syncs:
    """Counts the fsyncs of a controller's log, and lets the next one fail or wait."""

    def __init__(self, controller: Member, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.error: OSError | None = None
        log: MetadataLog = controller.raft.log
        original = log.prepare_sync

        def prepare_sync() -> FlushTask:
            task = original()
            self.count += 1
            if self.error is not None:
                error = self.error

                def fail() -> None:
                    task.discard()
                    raise error

                return FailingTask(task.end_offset, fail)  # type: ignore[return-value]
            return task

        monkeypatch.setattr(log, "prepare_sync", prepare_sync)


class FailingTask:
    def __init__(self, end_offset: int, run: Callable[[], None]) -> None:
        self.end_offset = end_offset
        self.run = run


async def test_decisions_of_one_moment_share_one_batch_and_one_fsync(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with directory.running() as controller:
        syncs = Syncs(controller, monkeypatch)
        appends: list[bytes] = []
        log = controller.raft.log
        append = log.append
        monkeypatch.setattr(log, "append", lambda data: (appends.append(data), append(data)))
        answers = await asyncio.gather(*(controller.submit(directory.create_topic(f"t{index}")) for index in range(20)))
        assert answers == ["created"] * 20
        assert (syncs.count, len(appends)) == (1, 1)
        assert len(list(read_batches(appends[0]))) == 1
        assert len(controller.image.topics) == 20


async def test_a_decision_sees_what_the_one_before_it_decided_and_waits_for_it(directory: Directory) -> None:
    async with directory.running() as controller:
        first = asyncio.ensure_future(controller.submit(directory.create_topic("orders")))
        second = asyncio.ensure_future(controller.submit(directory.create_topic("orders")))
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        assert first in done
        assert (await first, await second) == ("created", "exists")
        assert "orders" in controller.image.topics


async def test_the_committed_image_does_not_change_before_the_fsync(directory: Directory) -> None:
    async with directory.running() as controller:
        task = asyncio.ensure_future(controller.submit(directory.create_topic("orders")))
        await asyncio.sleep(0)
        assert "orders" in controller.working.topics
        assert "orders" not in controller.image.topics
        await task
        assert controller.image == controller.working


async def test_a_refused_decision_changes_nothing(directory: Directory) -> None:
    def refuse(image: MetadataImage) -> ControllerDecision[None]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    async with directory.running() as controller:
        before = controller.working.copy()
        with pytest.raises(KafkaError, match="no"):
            await controller.submit(refuse)
        assert controller.working == before


async def test_records_that_cannot_be_replayed_are_undone_and_the_others_stay(directory: Directory) -> None:
    impossible = [*directory.topic_records("half"), wire.RemoveTopicRecord()]
    async with directory.running() as controller:
        good = asyncio.ensure_future(controller.submit(directory.create_topic("good")))
        await asyncio.sleep(0)
        with pytest.raises(MetadataError):
            await controller.submit(lambda image: ControllerDecision(impossible, None))
        assert "half" not in controller.working.topics
        assert await good == "created"
        assert controller.image == controller.working
        assert set(controller.image.topics) == {"good"}


def fail_append(controller: Member, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(controller.raft.log, "append", fail)


async def test_a_failed_append_reverts_and_everyone_waiting_hears_not_controller(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with directory.running() as controller:
        before = controller.image.copy()
        with monkeypatch.context() as patch:
            fail_append(controller, patch, OSError(errno.ENOSPC, "No space left on device"))
            tasks = [controller.submit(directory.create_topic(name)) for name in ("a", "b")]
            answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [answer.code for answer in answers if isinstance(answer, KafkaError)] == [ErrorCode.NOT_CONTROLLER] * 2
        assert controller.raft.failure is None
        await until(lambda: controller.controller.active is not None)
        assert controller.raft.epoch == 2
        before.offset, before.epoch = before.offset + 1, 2  # the leader change
        assert controller.working == controller.image == before
        assert await controller.submit(directory.create_topic("a")) == "created"
    assert set(directory.load().image.topics) == {"a"}


async def test_a_failed_fsync_is_the_end_of_this_controller(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await directory.activate(directory.open())
    failures: list[BaseException] = []
    controller.raft.on_failed = failures.append
    syncs = Syncs(controller, monkeypatch)
    syncs.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(KafkaError) as caught:
        await controller.submit(directory.create_topic("a"))
    assert caught.value.code == ErrorCode.NOT_CONTROLLER
    assert controller.controller.active is None
    assert "a" not in controller.image.topics
    assert failures == [syncs.error] == [controller.raft.failure]
    syncs.error = None
    with pytest.raises(KafkaError) as caught:
        await controller.submit(directory.create_topic("b"))
    assert caught.value.code == ErrorCode.NOT_CONTROLLER
    assert syncs.count == 1
    controller.snapshotting._time_is_up()  # a snapshot would begin a new segment behind one that nobody knows
    await asyncio.sleep(0.01)
    assert sorted(path.name for path in directory.log.glob("*.log")) == ["00000000000000000000.log"]
    await controller.stop()


async def test_who_no_longer_waits_does_not_undo_the_decision(directory: Directory) -> None:
    async with directory.running() as controller:
        task = asyncio.ensure_future(controller.submit(directory.create_topic("orders")))
        await asyncio.sleep(0)
        task.cancel()
        assert await controller.submit(directory.create_topic("orders")) == "exists"


async def test_producer_ids_are_never_given_twice(directory: Directory) -> None:
    async with directory.running() as controller:
        blocks = await asyncio.gather(*(controller.broker.allocate_producer_ids() for _ in range(3)))
        assert blocks == [range(0, 1000), range(1000, 2000), range(2000, 3000)]
    async with directory.running() as controller:
        assert await controller.broker.allocate_producer_ids() == range(3000, 4000)


async def test_the_quorum_is_described_with_one_voter(directory: Directory) -> None:
    async with directory.running() as controller:
        quorum = controller.raft.quorum()
        assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (1, 1, 14)
        [voter] = quorum.voters
        assert (voter.replica_id, voter.directory_id, voter.log_end_offset) == (1, directory.id, 14)
        assert voter.last_fetch_timestamp_ms == voter.last_caught_up_timestamp_ms == directory.now_ms


async def test_after_the_stop_nothing_is_accepted_and_everything_was_written(directory: Directory) -> None:
    controller = await directory.activate(directory.open())
    pending = asyncio.ensure_future(controller.submit(directory.create_topic("orders")))
    await asyncio.sleep(0)
    await controller.stop()
    assert await pending == "created"
    with pytest.raises(KafkaError) as caught:
        await controller.submit(directory.create_topic("late"))
    assert caught.value.code == ErrorCode.NOT_CONTROLLER
    loaded = directory.load()
    assert set(loaded.image.topics) == {"orders"}
    assert loaded.image == controller.image
    names = {path.name for path in directory.log.iterdir()}
    end = f"{controller.image.offset + 1:020}.snapshot"
    assert {"leader-epoch-checkpoint", "partition.metadata", "quorum-state", end} <= names


async def test_a_controller_that_was_never_activated_can_be_stopped(directory: Directory) -> None:
    controller = directory.open()
    with pytest.raises(KafkaError):
        await controller.submit(directory.create_topic("early"))
    await controller.stop()
