"""The transaction coordinator inside a node: unfinished ends, time-outs, expiry, deleted topics, loss of a disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.core.coordinator.decision import Decision as Transition
from barnabas.core.transactions.decide import ProducerIdAndEpoch
from barnabas.core.transactions.records import record_of
from barnabas.node.configuration import BrokerConfig
from barnabas.node.node import Node
from barnabas.node.storage.origin import Origin
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.waiting import until

WAIT_S = 10.0
NOW_MS = 1_794_781_234_096


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


@asynccontextmanager
async def running(directory: Path, clock: Callable[[], int], **config: str) -> AsyncIterator[Node]:
    properties = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "log.dirs": str(directory),
        "num.partitions": "2",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "3",
    } | {key.replace("_", "."): value for key, value in config.items()}
    node = await Node.start(BrokerConfig.from_properties(properties), clock)
    try:
        await node.broker.automatic_topics.create(["orders"])
        await node.broker.transactions.create_topic()
        await until(lambda: not node.broker.transactions.is_loading)
        yield node
    finally:
        await node.stop()


async def begin(node: Node, timeout_ms: int = 60_000, index: int = 0) -> ProducerIdAndEpoch:
    """A transaction with one record in `orders`."""
    producer = await node.broker.transactions.init_producer_id("tx", timeout_ms, None)
    await node.broker.transactions.add_partitions("tx", *producer, [("orders", index)])
    partition = node.broker.partitions.get("orders", index)
    assert partition is not None
    batch = build_batch(
        [Record(0, node.clock(), b"k", b"v")],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    partition.append(batch, -1, node.clock(), Origin.CLIENT)
    return producer


def state(node: Node) -> str:
    found = node.broker.transactions.find("tx")
    return "" if found is None else found.state.text


def stable(node: Node, index: int = 0) -> tuple[int, int]:
    partition = node.broker.partitions.get("orders", index)
    assert partition is not None
    return partition.last_stable_offset, partition.high_watermark


@pytest.mark.parametrize("client_version", [0, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_that_was_decided_before_a_stop_is_completed_at_the_next_start(
    tmp_path: Path, client_version: int, committed: bool
) -> None:
    async def story() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as node:
            producer = await begin(node)
            for led in node.broker.transactions:
                led.shard.on_prepared = lambda transactional_id: None  # as if the process were killed right here
            await node.broker.transactions.end("tx", *producer, committed=committed, client_version=client_version)
            assert state(node) == ("PrepareCommit" if committed else "PrepareAbort")
            assert stable(node) == (0, 1)
        async with running(tmp_path, clock) as node:
            await until(lambda: state(node) == ("CompleteCommit" if committed else "CompleteAbort"))
            assert stable(node) == (2, 2)
            partition = node.broker.partitions.get("orders", 0)
            assert partition is not None
            assert len(partition.log.aborted_transactions(0, 2)) == (0 if committed else 1)

    asyncio.run(story())


def test_a_transaction_that_takes_too_long_is_aborted_by_itself(tmp_path: Path) -> None:
    async def story() -> None:
        clock = Clock()
        intervals = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "20"}
        async with running(tmp_path, clock, **intervals) as node:
            producer = await begin(node, timeout_ms=1_000)
            clock.now_ms += 1_000
            await asyncio.sleep(0.1)
            assert state(node) == "Ongoing"
            clock.now_ms += 1
            await until(lambda: state(node) == "CompleteAbort")
            assert stable(node) == (2, 2)
            with pytest.raises(KafkaError) as refused:
                await node.broker.transactions.end("tx", *producer, committed=True, client_version=0)
            assert refused.value.code is ErrorCode.PRODUCER_FENCED

    asyncio.run(story())


@pytest.mark.parametrize("asked", ["add", "verify", "verify another", "end", "end in the next epoch", "init"])
def test_a_producer_is_ended_only_by_who_still_coordinates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """A former coordinator that has not heard of its successor does not know what that one has given the producer."""

    async def story() -> None:
        async with running(tmp_path, Clock()) as node:
            coordinator = node.broker.transactions
            producer = await begin(node)
            later = producer._replace(producer_epoch=producer.producer_epoch + 1)
            ask: dict[str, Callable[[], Coroutine[None, None, object]]] = {
                "add": lambda: coordinator.add_partitions("tx", *later, [("orders", 1)]),
                "verify": lambda: coordinator.verify_partitions("tx", *later, [("orders", 0)]),
                "verify another": lambda: coordinator.verify_partitions("tx", *producer, [("orders", 1)]),
                "end": lambda: coordinator.end("tx", *later, committed=True, client_version=0),
                "end in the next epoch": lambda: coordinator.end("tx", *later, committed=True, client_version=2),
                "init": lambda: coordinator.init_producer_id(
                    "tx", 60_000, ProducerIdAndEpoch(later.producer_id + 1, 0)
                ),
            }
            before = coordinator.find("tx")
            monkeypatch.setattr(coordinator, "_is_only_replica", lambda transactional_id: False)
            if asked == "verify another":
                assert await ask[asked]() == {("orders", 1): ErrorCode.TRANSACTION_ABORTABLE}
            else:
                with pytest.raises(KafkaError) as refused:
                    await ask[asked]()
                assert refused.value.code is ErrorCode.PRODUCER_FENCED
            assert coordinator.find("tx") == before
            led = coordinator.led_for("tx")
            monkeypatch.setattr(led, "_committed", lambda: None)  # no follower fetches from it any more
            answer = asyncio.ensure_future(ask[asked]())
            await asyncio.sleep(0.05)
            assert not answer.done()
            led.lose()
            with pytest.raises(KafkaError) as refused:
                await answer
            assert refused.value.code is ErrorCode.NOT_COORDINATOR

    asyncio.run(story())


def test_an_only_replica_proves_nothing_and_writes_nothing_for_a_refusal(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, Clock()) as node:
            producer = await begin(node)
            log = node.broker.transactions.led_for("tx").partition.log
            before = log.log_end_offset
            later = producer._replace(producer_epoch=producer.producer_epoch + 1)
            with pytest.raises(KafkaError) as refused:
                await node.broker.transactions.end("tx", *later, committed=True, client_version=0)
            assert refused.value.code is ErrorCode.PRODUCER_FENCED
            assert log.log_end_offset == before

    asyncio.run(story())


def test_ids_expire_and_begin_anew(tmp_path: Path) -> None:
    async def story() -> None:
        clock = Clock()
        intervals = {"transaction_remove_expired_transaction_cleanup_interval_ms": "20"}
        async with running(tmp_path, clock, transactional_id_expiration_ms="5000", **intervals) as node:
            first = await node.broker.transactions.init_producer_id("tx", 1_000, None)
            clock.now_ms += 5_000
            await until(lambda: node.broker.transactions.find("tx") is None)
            again = await node.broker.transactions.init_producer_id("tx", 1_000, None)
            assert again.producer_id > first.producer_id

    asyncio.run(story())


def test_a_topic_that_is_deleted_does_not_keep_its_transaction_from_ending(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, Clock()) as node:
            producer = await begin(node)
            await node.broker.controller.request(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000)
            )
            assert "orders" not in node.broker.image.topics
            await node.broker.transactions.end("tx", *producer, committed=True, client_version=2)
            await until(lambda: state(node) == "CompleteCommit")

    asyncio.run(story())


def test_a_partition_that_cannot_be_written_keeps_the_transaction_until_it_can(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, Clock()) as node:
            producer = await begin(node)
            partition = node.broker.partitions.get("orders", 0)
            assert partition is not None
            partition.log.offline = True
            await node.broker.transactions.end("tx", *producer, committed=True, client_version=2)
            assert state(node) == "PrepareCommit"
            with pytest.raises(KafkaError) as refused:
                await node.broker.transactions.init_producer_id("tx", 1_000, None)
            assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
            partition.log.offline = False
            await until(lambda: state(node) == "CompleteCommit")
            assert stable(node) == (2, 2)

    asyncio.run(story())


def test_when_epochs_are_used_up_the_next_transaction_has_a_new_producer_id(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, Clock()) as node:
            first = await node.broker.transactions.init_producer_id("tx", 60_000, None)
            found = node.broker.transactions.find("tx")
            assert found is not None
            old = found._replace(producer_epoch=32_766)
            await node.broker.transactions.submit("tx", lambda _: Transition([record_of(old, 2)], None))
            await node.broker.transactions.add_partitions(
                "tx", first.producer_id, 32_766, [("orders", 0)], client_version=2
            )
            ended = await node.broker.transactions.end(
                "tx", first.producer_id, 32_766, committed=True, client_version=2
            )
            assert ended.producer_id > first.producer_id
            assert ended.producer_epoch == 0
            await node.broker.transactions.add_partitions("tx", *ended, [("orders", 1)], client_version=2)

    asyncio.run(story())
