"""Random, cut and flipped requests of every API and version: the node lives, tells nobody else's bytes and keeps no
memory. All of it comes from one seed."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.exchange import request_frame
from barnabas.node.handlers import HANDLERS
from barnabas.testing import Node
from barnabas.wire.apis import APIS, message_classes
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.random_messages import RandomMessages
from tests.support.reference_batches import crafted_batch

SEED = 20260101
MIB = 1 << 20
MESSAGES_PER_VERSION = 6
FLIPS_PER_MESSAGE = 4
PATIENCE_S = 0.1


def apis_and_versions() -> list[tuple[int, int]]:
    found = []
    for api_key in sorted(HANDLERS):
        offered = APIS[api_key].broker
        if offered:
            lowest = max(offered[0], message_classes(api_key)[0].valid_versions[0])
            found += [(api_key, version) for version in range(lowest, offered[1] + 1)]
    return found


def valid_frames() -> Iterator[bytes]:
    for api_key, version in apis_and_versions():
        messages = RandomMessages(f"{SEED} {api_key} {version}")
        for _ in range(MESSAGES_PER_VERSION):
            request = messages.message(message_classes(api_key)[0], version)
            yield bytes(request_frame(request, version, 7, "fuzz"))


class Witness:
    """An honest client in the midst of it, who always gets back its own records."""

    def __init__(self, node: Node, raw: Any) -> None:
        self.node = node
        self.raw = raw
        self.client = raw.Client(node.port)
        self.correlation_id = 1_000_000
        raw.create_topic(node, "witness")
        records = crafted_batch([(b"witness", b"testimony" * 50)])
        data = TopicProduceData(name="witness", partition_data=[PartitionProduceData(records=records)])
        self.client.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]), 9)
        self.files = self.open_files()
        self.first_answer = self.fetch()
        assert b"testimony" in bytes(self.first_answer.responses[0].partitions[0].records)

    def fetch(self) -> Any:
        self.correlation_id += 1
        partition = FetchPartition(partition=0, partition_max_bytes=MIB)
        request = FetchRequest(max_bytes=MIB, topics=[FetchTopic(topic="witness", partitions=[partition])])
        return self.client.ask(request, 11, self.correlation_id)

    def testify(self) -> None:
        assert self.node.running
        assert self.fetch() == self.first_answer

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.node.pid}/fd").iterdir()))

    def close(self) -> None:
        self.client.close()


@pytest.fixture
def witness(node: Node, raw: Any) -> Iterator[Witness]:
    testifying = Witness(node, raw)
    before = raw.rss_bytes(node.pid)
    yield testifying
    testifying.testify()
    raw.wait_until(lambda: testifying.open_files() <= testifying.files + 20)
    testifying.close()
    node.reset()
    assert raw.rss_bytes(node.pid) - before < 100 * MIB
    assert "Traceback" not in node.log(), node.log()[-5000:]


def tell(node: Node, raw: Any, data: bytes) -> None:
    """Sends it and waits for an answer or the end, a moment at most: some requests wait as long as they say."""
    with raw.Client(node.port) as client:
        client.socket.settimeout(PATIENCE_S)
        try:
            client.send(data)
            client.socket.recv(65536)
        except OSError:
            pass


def test_random_bytes_end_the_connection_and_nothing_else(node: Node, raw: Any, witness: Witness) -> None:
    source = random.Random(SEED)
    for number in range(400):
        data = source.randbytes(source.randint(1, 3000))
        if number % 2:
            data = struct.pack(">i", len(data)) + data
        if number % 4 == 3:
            data = data[:4] + struct.pack(">hh", source.choice(sorted(HANDLERS)), source.randint(0, 14)) + data[8:]
        tell(node, raw, data)
        if number % 20 == 0:
            witness.testify()


def test_requests_that_are_valid_but_senseless_are_answered_or_refused(node: Node, raw: Any, witness: Witness) -> None:
    for number, data in enumerate(valid_frames()):
        tell(node, raw, data)
        if number % 20 == 0:
            witness.testify()


def test_requests_that_are_cut_short_end_with_their_connection(node: Node, raw: Any, witness: Witness) -> None:
    source = random.Random(SEED)
    for number, data in enumerate(valid_frames()):
        cut = data[: source.randint(1, len(data) - 1)]
        with raw.Client(node.port) as client:
            client.send(cut)
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed_by_node()
        tell(node, raw, struct.pack(">i", max(len(cut) - 4, 0)) + cut[4:])
        if number % 20 == 0:
            witness.testify()


def test_flipped_bits_are_survived(node: Node, raw: Any, witness: Witness) -> None:
    source = random.Random(SEED)
    for number, data in enumerate(valid_frames()):
        for _ in range(FLIPS_PER_MESSAGE):
            flipped = bytearray(data)
            for _ in range(source.randint(1, 6)):
                position = source.randrange(8, len(flipped))
                flipped[position] ^= 1 << source.randrange(8)
            tell(node, raw, bytes(flipped))
        if number % 20 == 0:
            witness.testify()
