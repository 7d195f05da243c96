"""A node in a process of its own, and clients that send it whatever they like."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from barnabas.client.blocking import Connection
from barnabas.client.exchange import request_frame
from barnabas.testing import Node
from barnabas.wire.apis import message_classes, response_header_version
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
from barnabas.wire.schema import Request

WAIT_S = 20.0


class RawClient:
    """A socket that knows where a frame ends, and nothing else."""

    def __init__(self, port: int, *, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(("127.0.0.1", port))

    def send(self, *data: bytes | bytearray) -> None:
        self.socket.sendall(b"".join(data))

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed")
            data += chunk
        return bytes(data)

    def ask(self, request: Request, version: int, correlation_id: int = 1) -> Any:
        self.send(request_frame(request, version, correlation_id, "raw"))
        return self.receive_answer(type(request), version, correlation_id)

    def receive_answer(self, request: type[Request], version: int, correlation_id: int) -> Any:
        frame = self.receive_frame()
        assert struct.unpack_from(">i", frame) == (correlation_id,)
        body = frame[4 + response_header_version(request, version) :]
        return message_classes(request.api_key)[1].decode(body, version)

    def is_closed_by_node(self) -> bool:
        """Waits for the end, and forgets answers that come before it."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int, correlation_id: int = 1, client_id: bytes = b"raw") -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id


def rss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until(condition: Callable[[], bool], limit_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


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
