"""A partition whose log fails in a way that nobody foresaw has an error of its own, and the others are served."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.client.connection import Connection
from barnabas.testing import Node
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.reference_batches import crafted_batch

BOTH = (0, 1)
ONE_FAILS = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


def codes(connection: Connection) -> dict[str, list[int]]:
    """The error codes of both partitions, API by API."""

    def ask(request: Any, version: int) -> Any:
        return connection.request(request, version)

    data = [PartitionProduceData(index=index, records=crafted_batch()) for index in BOTH]
    produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    fetch = FetchRequest(
        max_bytes=1000,
        topics=[
            FetchTopic(topic="t", partitions=[FetchPartition(partition=i, partition_max_bytes=1000) for i in BOTH])
        ],
    )
    by_time = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=i, timestamp=5) for i in BOTH])
        ]
    )
    delete = DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=i) for i in BOTH])],
    )
    epochs = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=i) for i in BOTH])]
    )
    producers = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(BOTH))])
    return {
        "produce": [each.error_code for each in ask(produce, 9).responses[0].partition_responses],
        "fetch": [each.error_code for each in ask(fetch, 11).responses[0].partitions],
        "list offsets": [each.error_code for each in ask(by_time, 6).topics[0].partitions],
        "delete records": [each.error_code for each in ask(delete, 2).topics[0].partitions],
        "leader epochs": [each.error_code for each in ask(epochs, 4).topics[0].partitions],
        "producers": [each.error_code for each in ask(producers, 0).topics[0].partitions],
    }


def fail_for(monkeypatch: pytest.MonkeyPatch, broken: Any, *methods: str) -> None:
    """Of all objects of its class this one fails."""
    for name in methods:
        original = getattr(type(broken), name)

        def method(self: Any, *args: Any, original: Any = original, **named: Any) -> Any:
            if self is broken:
                raise ZeroDivisionError("nobody foresaw it")
            return original(self, *args, **named)

        monkeypatch.setattr(type(broken), name, method)


def test_the_fault_of_one_partition_is_nobody_else_s(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Node() as node:
            await asyncio.to_thread(node.create_topic, "t", 2)
            assert node._embedded is not None
            partition = node._embedded.broker.partitions.get("t", 0)
            assert partition is not None
            fail_for(monkeypatch, partition, "append", "read")
            of_log = ("batch_for_timestamp", "advance_log_start_offset", "end_offset_for_epoch", "active_producers")
            fail_for(monkeypatch, partition.log, *of_log)
            connection = await asyncio.to_thread(node.connect)
            try:
                found = await asyncio.to_thread(codes, connection)
            finally:
                connection.close()
            assert found == dict.fromkeys(found, ONE_FAILS)

    asyncio.run(story())
