"""A peer on our node: produced to and fetched from, waited for, killed and started again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.errors import BrokerUnreachable, ConnectionLost
from barnabas.client.peer import Peer, PeerSettings
from barnabas.testing import Node
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.reference_batches import crafted_batch

LIMIT_S = 30.0


def produce(topic: str, value: bytes) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=crafted_batch([(b"k", value)]))]
    return ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def fetch(topic: str, offset: int, wait_ms: int = 0) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=64 << 20)
    topics = [FetchTopic(topic=topic, partitions=[part])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=64 << 20, topics=topics)


def test_megabytes_come_back_as_they_were_sent_beside_a_fetch_that_waits(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        address = ("127.0.0.1", node.port)
        async with Peer(address, PeerSettings(in_flight_max=3)) as peer, Peer(address) as waiting:
            value = bytes(range(256)) * 3_600
            offsets = []
            for answer in await asyncio.gather(*(peer.send(produce("t", value), 9) for _ in range(8))):
                (told,) = answer.responses[0].partition_responses
                assert told.error_code == 0
                offsets.append(told.base_offset)
            assert offsets == list(range(8)), "sent out of order"
            tail = asyncio.create_task(waiting.send(fetch("t", 8, wait_ms=20_000), 12))
            answer = await peer.send(fetch("t", 0), 12)
            records = bytes(answer.responses[0].partitions[0].records)
            assert records.count(value) == 8
            assert not tail.done()
            await peer.send(produce("t", b"late"), 9)
            assert b"late" in bytes((await tail).responses[0].partitions[0].records)

    async def limited(node: Node) -> None:
        async with asyncio.timeout(LIMIT_S):
            await story(node)

    with Node(data_dir=tmp_path) as node:
        node.create_topic("t")
        asyncio.run(limited(node))


def test_a_node_that_is_killed_and_comes_back_is_reached_again_by_itself(tmp_path: Path) -> None:
    async def answered(peer: Peer) -> Any:
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                return await peer.send(MetadataRequest(topics=[]), timeout_ms=5_000)
            except BrokerUnreachable:  # paced by the peer's own pauses
                assert time.monotonic() < until

    async def story(node: Node) -> None:
        async with Peer(("127.0.0.1", node.port)) as peer:
            first = await answered(peer)
            waits = asyncio.create_task(peer.send(fetch("t", 0, wait_ms=20_000), 12))
            while not peer.in_flight:  # noqa: ASYNC110 (it takes one turn of the loop)
                await asyncio.sleep(0)
            await asyncio.to_thread(node.kill)
            with pytest.raises(ConnectionLost, match="closed the connection before it answered Fetch"):
                await waits
            with pytest.raises(BrokerUnreachable, match="connection refused"):
                await peer.send(MetadataRequest(topics=[]), timeout_ms=5_000)
            await asyncio.to_thread(node.restart)
            assert (await answered(peer)).cluster_id == first.cluster_id

    with Node(data_dir=tmp_path) as node:
        node.create_topic("t")
        asyncio.run(story(node))
