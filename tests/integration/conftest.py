"""A node in a process of its own, and clients that send it whatever they like."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from barnabas.client.connection import Connection
from barnabas.testing import Node
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw import RawClient, frame, header
from tests.support.waiting import wait_until

WAIT_S = 20.0


def rss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def answers(node: Node) -> bool:
    """Whether a new client gets what it asks for."""
    with RawClient(node.port) as client:
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        return client.ask(request, 4).error_code == 0 and node.running


def create_topic(node: Node, name: str, partitions: int = 1, **configs: str) -> None:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    with RawClient(node.port) as client:
        answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert answer.topics[0].error_code == 0, answer


class LogClient:
    """Writes and reads the partitions of a node batch by batch, and changes configs."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.connection: Connection = node.connect()

    def reconnect(self) -> None:
        self.connection.close()
        self.connection = self.node.connect()

    def produce(self, topic: str, batch: bytes | bytearray, partition: int = 0, acks: int = -1) -> Any:
        """The partition's part of the answer."""
        data = [PartitionProduceData(index=partition, records=bytes(batch))]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        answer = self.connection.request(ProduceRequest(acks=acks, timeout_ms=15_000, topic_data=topics), 9)
        return answer.responses[0].partition_responses[0]

    def append(self, topic: str, batch: bytes | bytearray, partition: int = 0) -> int:
        result = self.produce(topic, batch, partition)
        assert result.error_code == 0, result
        offset: int = result.base_offset
        return offset

    def fetch(self, topic: str, offset: int, partition: int = 0, max_bytes: int = 1 << 26) -> Any:
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics = [FetchTopic(topic=topic, partitions=[asked])]
        answer = self.connection.request(FetchRequest(max_wait_ms=0, max_bytes=max_bytes, topics=topics), 12)
        return answer.responses[0].partitions[0]

    def offset(self, topic: str, timestamp: int, partition: int = 0) -> int:
        """-2 for the earliest, -1 for the latest."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
        found = self.connection.request(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics[0].partitions[0]
        assert found.error_code == 0, found
        offset: int = found.offset
        return offset

    def configure(self, topic: str, **configs: object) -> None:
        changes = [
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=str(value))
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=changes)
        [result] = self.connection.request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert result.error_code == 0, result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


@pytest.fixture
def log_client() -> type[LogClient]:
    return LogClient


@pytest.fixture
def raw() -> SimpleNamespace:
    return SimpleNamespace(
        Client=RawClient,
        frame=frame,
        header=header,
        rss_bytes=rss_bytes,
        wait_until=wait_until,
        answers=answers,
        create_topic=create_topic,
    )


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    # Crafted records are of 2023: no round of retention may take them away while they are read.
    with Node({"log.initial.task.delay.ms": 3_600_000}) as running:
        yield running
