"""Many clients, slow clients, impatient clients: each costs only itself, and memory has a bound."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.exchange import request_frame
from barnabas.node import open_files as shares
from barnabas.testing import Node
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schema import Request
from tests.support.reference_batches import crafted_batch

MIB = 1 << 20
LARGE_PARTITIONS = 8
LARGE_BATCHES = 8
LARGE_VALUE_BYTES = 900_000

Asked = tuple[Request, int]


def fetch_request(topic: str, partitions: int = 1, *, max_wait_ms: int = 0, min_bytes: int = 0) -> FetchRequest:
    wanted = [FetchPartition(partition=index, partition_max_bytes=55 * MIB) for index in range(partitions)]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=55 * MIB,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )


def produce_request(topic: str, records: bytes, *, partition: int = 0, acks: int = 1) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def open_files(node: Node) -> int:
    return len(list(Path(f"/proc/{node.pid}/fd").iterdir()))


@pytest.fixture(scope="module")
def large_topic(node: Node) -> str:
    """Some 58 MB, more than one answer may hold."""
    name = "large"
    with node.connect() as connection:
        topic = CreatableTopic(name=name, num_partitions=LARGE_PARTITIONS, replication_factor=1)
        assert connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics[0].error_code == 0
        for partition in range(LARGE_PARTITIONS):
            for number in range(LARGE_BATCHES):
                value = bytes([partition * LARGE_BATCHES + number]) * LARGE_VALUE_BYTES
                request = produce_request(name, crafted_batch([(b"k", value)]), partition=partition)
                answer = connection.request(request, 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
    return name


# Order


def mixed_requests(topic: str, count: int) -> Iterator[Asked]:
    offsets = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    for number in range(count):
        batch = crafted_batch([(b"k", str(number).encode())])
        yield ApiVersionsRequest(client_software_name="a", client_software_version="1"), number % 5
        yield MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 1 + number % 12
        yield produce_request(topic, batch), 3 + number % 10
        yield produce_request(topic, batch, acks=-1), 3 + number % 10
        yield ListOffsetsRequest(topics=[offsets]), 1 + number % 10
        yield fetch_request(topic), 4 + number % 9
        yield fetch_request(topic, max_wait_ms=5, min_bytes=50 * MIB), 4 + number % 9


def test_requests_in_one_segment_are_answered_in_their_order(node: Node, raw: Any) -> None:
    raw.create_topic(node, "ordered")
    asked = list(mixed_requests("ordered", 40))
    frames = [request_frame(request, version, 1000 + index, "raw") for index, (request, version) in enumerate(asked)]
    with raw.Client(node.port) as client:
        client.send(*frames)
        for index, (request, version) in enumerate(asked):
            client.receive_answer(type(request), version, 1000 + index)
        assert client.ask(ApiVersionsRequest(), 0, 77).error_code == 0


def test_a_produce_without_acks_leaves_no_gap_in_the_answers(node: Node, raw: Any) -> None:
    raw.create_topic(node, "unacknowledged")
    with raw.Client(node.port) as client:
        for number in range(20):
            request = produce_request("unacknowledged", crafted_batch(), acks=0)
            client.send(
                request_frame(request, 9, 500 + number, "raw"), request_frame(ApiVersionsRequest(), 0, number, "raw")
            )
        for number in range(20):
            client.receive_answer(ApiVersionsRequest, 0, number)


def test_requests_in_single_bytes_are_understood(node: Node, raw: Any) -> None:
    raw.create_topic(node, "bytewise")
    with raw.Client(node.port) as client:
        for index, (request, version) in enumerate(mixed_requests("bytewise", 2)):
            for byte in request_frame(request, version, index, "raw"):
                client.send(bytes([byte]))
            client.receive_answer(type(request), version, index)


def test_a_client_that_says_no_more_is_still_answered(node: Node, raw: Any) -> None:
    with raw.Client(node.port) as client:
        client.send(request_frame(ApiVersionsRequest(), 0, 3, "raw"))
        client.socket.shutdown(socket.SHUT_WR)
        client.receive_answer(ApiVersionsRequest, 0, 3)
        assert client.is_closed_by_node()


@pytest.mark.parametrize(("codec", "value_bytes", "count"), [("producer", 20, 2000), ("zstd", 8000, 300)])
def test_records_of_a_client_that_wants_no_acks_and_closes_at_once_are_all_appended(
    node: Node, raw: Any, codec: str, value_bytes: int, count: int
) -> None:
    topic = f"hasty-{codec}"
    raw.create_topic(node, topic, compression_type=codec)
    request = produce_request(topic, crafted_batch([(b"k", bytes(value_bytes))]), acks=0)
    with raw.Client(node.port) as client:
        client.send(request_frame(request, 9, 1, "raw") * count)
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    with raw.Client(node.port) as client:
        raw.wait_until(lambda: client.ask(asked, 5).topics[0].partitions[0].offset == count)


# Limits


def is_served(client: Any) -> bool:
    try:
        return bool(client.ask(ApiVersionsRequest(), 0).error_code == 0)
    except OSError:
        return False


def test_connections_over_the_limits_are_closed_at_once(raw: Any) -> None:
    with Node({"max.connections": 5}) as node:
        raw.wait_until(lambda: raw.answers(node))
        clients = [raw.Client(node.port) for _ in range(8)]
        assert [is_served(client) for client in clients] == [True] * 5 + [False] * 3
        clients[0].close()
        raw.wait_until(lambda: raw.answers(node))
        for client in clients:
            client.close()


@contextmanager
def at_most_open_files(limit: int) -> Iterator[None]:
    """Of what is started meanwhile, as long as it does not raise the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_node_takes_as_many_open_files_as_the_system_grants(raw: Any) -> None:
    few = len(list(Path("/proc/self/fd").iterdir())) + 64
    with at_most_open_files(few):
        node = Node().start()
    try:
        clients = [raw.Client(node.port) for _ in range(few + 20)]
        assert all(is_served(client) for client in clients)
        for client in clients:
            client.close()
    finally:
        node.close()


def test_clients_cannot_take_the_open_files_that_logs_need(raw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "limit", lambda: 100)

    def flood(node: Node) -> None:
        raw.create_topic(node, "flooded", 40)
        clients = [raw.Client(node.port) for _ in range(70)]
        assert 40 <= sum(is_served(client) for client in clients) <= 50
        with clients[0] as client:
            for partition in range(40):
                answer = client.ask(produce_request("flooded", crafted_batch(), partition=partition), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
        for client in clients[1:]:
            client.close()

    async def live() -> None:
        async with Node() as node:
            await asyncio.to_thread(flood, node)

    asyncio.run(live())


def test_each_address_has_its_own_limit(raw: Any) -> None:
    with Node({"max.connections.per.ip": 3, "max.connections.per.ip.overrides": "127.0.0.5:1"}) as node:
        raw.wait_until(lambda: raw.answers(node))
        clients = [raw.Client(node.port) for _ in range(4)]
        assert [is_served(client) for client in clients] == [True, True, True, False]
        for client in clients:
            client.close()


def test_idle_connections_are_closed(raw: Any) -> None:
    with Node({"connections.max.idle.ms": 500}) as node, raw.Client(node.port) as client:
        assert is_served(client)
        assert client.is_closed_by_node()
        assert raw.answers(node)


# Memory


def test_a_thousand_idle_connections_cost_little(node: Node, raw: Any) -> None:
    assert raw.answers(node)
    files = open_files(node)
    before = raw.rss_bytes(node.pid)
    clients = [raw.Client(node.port) for _ in range(1000)]
    for client in clients:
        assert is_served(client)
    grown = raw.rss_bytes(node.pid) - before
    assert raw.answers(node)
    for client in clients:
        client.close()
    raw.wait_until(lambda: open_files(node) <= files + 5)
    assert grown < 20 * MIB
    assert raw.rss_bytes(node.pid) - before < 20 * MIB


def test_a_hundred_clients_that_ask_for_much_and_read_nothing_stay_within_bounds(
    node: Node, raw: Any, large_topic: str
) -> None:
    request = request_frame(fetch_request(large_topic, LARGE_PARTITIONS), 12, 1, "slow")
    before = raw.rss_bytes(node.pid)
    clients = [raw.Client(node.port, receive_buffer_bytes=4096) for _ in range(99)]
    patient = raw.Client(node.port)
    for client in [*clients, patient]:
        client.send(request * 5)
    highest = 0
    for _ in range(20):
        assert raw.answers(node)
        highest = max(highest, raw.rss_bytes(node.pid) - before)
        time.sleep(0.05)
    for _ in range(5):
        check_large_answer(patient.receive_answer(FetchRequest, 12, 1))
    highest = max(highest, raw.rss_bytes(node.pid) - before)
    patient.close()
    for client in clients:
        client.close()
    assert raw.answers(node)
    assert highest < 200 * MIB, f"{highest / MIB:.0f} MiB"


def check_large_answer(answer: Any) -> None:
    size = 0
    for partition in answer.responses[0].partitions:
        records = memoryview(partition.records)
        size += len(records)
        position = number = 0
        while len(records) - position > LARGE_VALUE_BYTES:
            (length,) = struct.unpack_from(">i", records, position + 8)
            value = partition.partition_index * LARGE_BATCHES + number
            middle = position + 12 + length // 2
            assert records[middle : middle + 100] == bytes([value]) * 100
            position += 12 + length
            number += 1
    assert 50 * MIB < size < 60 * MIB


def test_a_client_that_only_asks_is_made_to_wait(node: Node, raw: Any, large_topic: str) -> None:
    """It sends as much as the node takes. Answers fill the sockets, then the node stops reading."""
    names = [MetadataRequestTopic(name=large_topic)]
    request = memoryview(bytes(request_frame(MetadataRequest(topics=names), 12, 1, "greedy")) * 200)
    before = raw.rss_bytes(node.pid)
    with raw.Client(node.port, receive_buffer_bytes=4096) as client:
        client.socket.settimeout(1.0)
        sent = 0
        try:
            while sent < 200 * MIB:
                sent += client.socket.send(request[sent % len(request) :])
        except TimeoutError:
            pass
        assert sent < 20 * MIB
        assert raw.answers(node)
        assert raw.rss_bytes(node.pid) - before < 30 * MIB


def test_fetches_whose_clients_went_away_are_forgotten(node: Node, raw: Any) -> None:
    raw.create_topic(node, "empty")
    request = request_frame(fetch_request("empty", max_wait_ms=600_000, min_bytes=1), 12, 1, "gone")
    files = open_files(node)
    for _ in range(3):
        before = raw.rss_bytes(node.pid)
        for _ in range(500):
            with raw.Client(node.port) as client:
                client.send(request)
        assert raw.answers(node)
    raw.wait_until(lambda: open_files(node) <= files + 5)
    assert raw.rss_bytes(node.pid) - before < 10 * MIB


def test_sessions_of_clients_that_went_away_keep_none_of_the_records_they_were_sent(
    node: Node, raw: Any, large_topic: str
) -> None:
    request = fetch_request(large_topic)
    request.session_epoch = 0
    request.max_bytes = LARGE_VALUE_BYTES
    before = raw.rss_bytes(node.pid)
    for _ in range(150):
        with raw.Client(node.port) as client:
            answer = client.ask(request, 12)
            assert answer.session_id
            assert len(answer.responses[0].partitions[0].records) > LARGE_VALUE_BYTES
    assert raw.rss_bytes(node.pid) - before < 40 * MIB


def test_large_requests_side_by_side_arrive_whole(node: Node, raw: Any) -> None:
    raw.create_topic(node, "side-by-side", 10)
    clients = [raw.Client(node.port) for _ in range(10)]
    values = [os.urandom(700_000) for _ in clients]
    frames = [
        bytes(
            request_frame(produce_request("side-by-side", crafted_batch([(b"k", value)]), partition=index), 9, 1, "c")
        )
        for index, value in enumerate(values)
    ]
    pieces = 20
    for piece in range(pieces):
        for client, frame in zip(clients, frames, strict=True):
            size = len(frame) // pieces + 1
            client.send(frame[piece * size : (piece + 1) * size])
    for client in clients:
        answer = client.receive_answer(ProduceRequest, 9, 1)
        assert answer.responses[0].partition_responses[0].error_code == 0
    answer = clients[0].ask(fetch_request("side-by-side", 10), 12)
    for partition in answer.responses[0].partitions:
        assert values[partition.partition_index] in bytes(partition.records)
    for client in clients:
        client.close()


def test_clients_that_leave_while_their_topics_are_created_leave_nothing_half_done(node: Node, raw: Any) -> None:
    names = [f"left-{number}" for number in range(60)]
    for name in names:
        topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
        with raw.Client(node.port) as client:
            client.send(request_frame(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7, 1, "gone"))
    raw.create_topic(node, "stayed")
    with raw.Client(node.port) as client:
        metadata = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12)
        found = [topic for topic in metadata.topics if topic.error_code == 0]
        assert all(len(topic.partitions) == 3 for topic in found)
        for topic in found:
            answer = client.ask(produce_request(topic.name, crafted_batch(), partition=2), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
