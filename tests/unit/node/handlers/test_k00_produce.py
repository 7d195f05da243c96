"""What a single node never meets, but a cluster will: slow replicas, other leaders, access that is denied."""

import asyncio
import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.metadata.state import BrokerState, Endpoint, MetadataImage, PartitionState
from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.partition import Partition
from barnabas.node.handlers import k00_produce
from barnabas.node.handlers.k00_produce import error_response, handle
from barnabas.node.requests import ListenerKind, RequestContext, Session
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.wire.batch import TRANSACTIONAL_FLAG
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.records.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from barnabas.wire.uuids import ZERO_UUID, Uuid
from tests.support.reference_batches import crafted_batch

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(b"topic-id-0000001")


def image_of(topic: str, leader: int) -> MetadataImage:
    image = MetadataImage()
    record = PartitionRecord(
        topic_id=TOPIC_ID,
        partition_id=0,
        replicas=[1, 2],
        isr=[1, 2],
        leader=leader,
        leader_epoch=3,
        directories=[ZERO_UUID, ZERO_UUID],
    )
    image.replay_all([TopicRecord(name=topic, topic_id=TOPIC_ID), record])
    endpoint = Endpoint("PLAINTEXT", "other.host", 9092)
    image.brokers[2] = BrokerState(id=2, epoch=1, incarnation_id=ZERO_UUID, endpoints={"PLAINTEXT": endpoint})
    return image


class Hosted:
    """One node of two, with one partition."""

    def __init__(self, tmp_path: Path, *, leader: int = 1, topic: str = "orders", **configs: Any) -> None:
        self.image = image_of(topic, leader)
        state: PartitionState = self.image.topics[topic].partitions[0]
        log = create_log(tmp_path / f"{topic}-0", topic, 0, LogConfig(**configs), now_ms=NOW_MS)
        self.partition = Partition(1, state, log, 0)
        self.partitions = SimpleNamespace(
            recompress=False,
            get=lambda name, index: self.partition if (name, index) == (topic, 0) else None,
            missing_error=lambda image, name, index: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    def clock(self) -> int:
        return NOW_MS


class Denied(RequestContext):
    may_everything = False

    def may(self, operation: Operation, resource: Resource) -> bool:
        return False


def context(version: int = 12, kind: type[RequestContext] = RequestContext) -> RequestContext:
    session = Session(
        listener="PLAINTEXT",
        kind=ListenerKind.BROKER,
        security_protocol=0,
        client_host="127.0.0.1",
        client_port=1,
        routes={},
    )
    return kind(session, 0, version, 1, "test")


def request(acks: int = -1, timeout_ms: int = 60_000, topic: str = "orders") -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=bytearray(crafted_batch()))]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def only(answer: Any) -> Any:
    return answer.responses[0].partition_responses[0]


def test_acks_all_is_answered_when_the_follower_has_it(tmp_path: Path) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path)
        answer = asyncio.ensure_future(handle(context(), request(), node))
        await asyncio.sleep(0)
        assert not answer.done()
        node.partition.fetched_by(2, 1, -1, 0)
        assert type(await answer).__name__ == "AppendedResponse"
        assert not node.partition.watchers

    asyncio.run(story())


def test_acks_1_does_not_wait_for_followers(tmp_path: Path) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path)
        assert type(await handle(context(), request(acks=1), node)).__name__ == "AppendedResponse"
        assert node.partition.high_watermark == 0

    asyncio.run(story())


def test_a_follower_that_is_too_slow_is_a_timeout(tmp_path: Path) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path)
        assert only(await handle(context(), request(timeout_ms=1), node)).error_code == ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(story())


def test_a_request_that_failed_is_not_left_to_the_collector(tmp_path: Path) -> None:
    """It may be a megabyte, and looking for it holds up the loop."""

    async def story() -> None:
        node: Any = Hosted(tmp_path)
        asked = request(acks=1)
        records = asked.topic_data[0].partition_data[0].records
        assert isinstance(records, bytearray)
        records[-1] ^= 1
        told = weakref.ref(asked)
        assert only(await handle(context(), asked, node)).error_code == ErrorCode.CORRUPT_MESSAGE
        del asked
        assert told() is None

    gc.disable()
    try:
        asyncio.run(story())
    finally:
        gc.enable()


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_is_deleted_while_its_followers_are_waited_for_is_an_error(tmp_path: Path, version: int) -> None:
    async def scenario() -> Any:
        hosted = Hosted(tmp_path)
        asked = request()
        asked.topic_data[0].topic_id = TOPIC_ID
        waiting = asyncio.ensure_future(handle(context(version), asked, hosted))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        hosted.image.replay_all([RemoveTopicRecord(topic_id=TOPIC_ID)])
        hosted.partition.retire()
        return only(await waiting)

    assert asyncio.run(scenario()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_too_few_in_sync_replicas_are_found_before_and_after_the_append(tmp_path: Path) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path, min_insync_replicas=2)
        answer = asyncio.ensure_future(handle(context(), request(timeout_ms=100), node))
        await asyncio.sleep(0)
        state = node.image.topics["orders"].partitions[0]
        changed = {field: getattr(state, field) for field in ("topic_id", "topic", "index", "replicas", "leader")}
        node.partition.apply(PartitionState(**changed, isr=[1], leader_epoch=3, partition_epoch=1))
        # The high watermark stands still below the minimum, so it is not known whether the record will be committed.
        assert only(await answer).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert only(await handle(context(), request(), node)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    asyncio.run(story())


@pytest.mark.parametrize("version", [9, 10, 12])
def test_who_asks_the_wrong_node_is_told_the_leader(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path, leader=2)
        answer: Any = await handle(context(version), request(), node)
        found = only(answer)
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = (found.current_leader.leader_id, found.current_leader.leader_epoch)
        endpoints = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
        assert (leader, endpoints) == (((2, 3), [(2, "other.host", 9092)]) if version >= 10 else ((-1, -1), []))
        answer.encode(version)

    asyncio.run(story())


def test_clients_do_not_write_to_internal_topics(tmp_path: Path) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path, topic="__consumer_offsets")
        answer = await handle(context(), request(topic="__consumer_offsets"), node)
        assert only(answer).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    asyncio.run(story())


def test_who_may_not_write_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path)
        answer = await handle(context(kind=Denied), request(acks=1), node)
        assert only(answer).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert node.partition.log.log_end_offset == 0

    asyncio.run(story())


def test_null_records_are_invalid(tmp_path: Path) -> None:
    async def story() -> None:
        node: Any = Hosted(tmp_path)
        asked = request(acks=1)
        asked.topic_data[0].partition_data[0].records = None
        assert only(await handle(context(), asked, node)).error_code == ErrorCode.INVALID_RECORD

    asyncio.run(story())


def test_an_error_with_acks_0_has_no_answer() -> None:
    error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert error_response(request(acks=0), error) is None
    assert only(error_response(request(acks=1), error)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


class TwoTopics:
    """This node leads "orders" and no longer "payments"."""

    def __init__(self, tmp_path: Path) -> None:
        self.orders, self.payments = Hosted(tmp_path), Hosted(tmp_path, leader=2, topic="payments")
        self.image = self.payments.image
        self.config = SimpleNamespace(transaction_partition_verification_enable=True)
        hosted = {("orders", 0): self.orders.partition, ("payments", 0): self.payments.partition}
        self.partitions = SimpleNamespace(recompress=False, get=lambda *at: hosted.get(at))

    def clock(self) -> int:
        return NOW_MS


@pytest.mark.parametrize("version", [11, 12])
def test_a_transaction_is_told_of_the_new_leader_of_one_partition_though_others_are_led_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """INVALID_TXN_STATE would abort it, and its producer would not look for the leader before the next one."""

    async def agree(*_: Any, **__: Any) -> dict[Any, Any]:
        return {}

    async def story() -> Any:
        batch = crafted_batch(attributes=TRANSACTIONAL_FLAG, producer_id=7, producer_epoch=0, base_sequence=0)
        asked = ProduceRequest(
            transactional_id="t",
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytearray(batch))])
                for topic in ("orders", "payments")
            ],
        )
        return await handle(context(version), asked, node)

    node: Any = TwoTopics(tmp_path)
    monkeypatch.setattr(k00_produce, "verify", agree)
    ours, others = (each.partition_responses[0] for each in asyncio.run(story()).responses)
    assert ours.error_code == ErrorCode.NONE
    assert others.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (others.current_leader.leader_id, others.current_leader.leader_epoch) == (2, 3)
    assert node.orders.partition.log.log_end_offset == 1
    assert node.payments.partition.log.log_end_offset == 0
