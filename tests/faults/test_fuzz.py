"""Frames and record batches that Hypothesis thinks up, against a live node, with an honest client beside them.

The node lives, logs no traceback, keeps no memory, and the honest client gets back its own records and nothing else.
Fifteen seconds; `make fuzz` goes on for half an hour (BARNABAS_FUZZ_S=1800). BARNABAS_SEED repeats a run.
"""

from __future__ import annotations

import gc
import os
import random
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import crc32c
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.exchange import request_frame
from barnabas.node.handlers import HANDLERS
from barnabas.testing import Node
from barnabas.wire.apis import APIS, message_classes
from barnabas.wire.batch import decode_records, iterate_batches
from barnabas.wire.compression import Compression, compress
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.random_messages import RandomMessages
from tests.support.reference_batches import crafted_batch

SECONDS = float(os.environ.get("BARNABAS_FUZZ_S", "15"))
# The first part of the time fills caches and makes everything once that is made once.
WARM_UP = 0.3
EXAMPLES = 150
PATIENCE_S = 0.02
MIB = 1 << 20
# A node under this attack goes from 42 to 55 MiB within a minute and stays there: its caches are full then.
GROWTH = 1.10
CACHES_BYTES = 5 * MIB
FUZZED = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "zstd"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
# Requests that a fuzzer had better leave alone: they would, rightly, make the node another one.
SPARED = {
    44,  # IncrementalAlterConfigs and
    33,  # AlterConfigs: of the broker
    57,  # UpdateFeatures
}


def apis_and_versions() -> list[tuple[int, int]]:
    found = []
    for api_key in sorted(set(HANDLERS) - SPARED):
        offered = APIS[api_key].broker
        if offered:
            lowest = max(offered[0], message_classes(api_key)[0].valid_versions[0])
            found += [(api_key, version) for version in range(lowest, offered[1] + 1)]
    return found


INTERESTING = [0, 1, -1, 2, 127, 128, 255, 2**15 - 1, -(2**15), 2**16, 2**31 - 1, -(2**31), 2**24, 61, 49, 0x01FFFFFF]


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few things done to them."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        if not changed:
            break
        at = draw(st.integers(0, len(changed) - 1))
        kind = draw(st.sampled_from(["flip", "number", "cut", "insert", "repeat", "remove"]))
        if kind == "flip":
            changed[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "number":
            changed[at : at + 4] = struct.pack(">i", draw(st.sampled_from(INTERESTING)))
        elif kind == "cut":
            del changed[at:]
        elif kind == "insert":
            changed[at:at] = draw(st.binary(min_size=1, max_size=40))
        elif kind == "repeat":
            size = draw(st.integers(1, 200))
            changed[at:at] = changed[at : at + size] * draw(st.sampled_from([1, 2, 50]))
        else:
            del changed[at : at + draw(st.integers(1, 20))]
    return bytes(changed)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request of any API and version with random content, harmed or not."""
    api_key, version = draw(st.sampled_from(apis_and_versions()))
    messages = RandomMessages(f"{draw(st.integers(0, 1 << 32))}")
    request = messages.message(message_classes(api_key)[0], version)
    frame = bytes(request_frame(request, version, draw(st.integers(-1, 9)), "fuzz"))
    if draw(st.booleans()):
        return frame
    body = draw(mutations(frame[4:]))
    size = draw(st.sampled_from([len(body)] * 8 + INTERESTING))
    return struct.pack(">i", size) + body


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A record batch: right, wrong in its header, or wrong in its records with a checksum that is right."""
    small = st.binary(max_size=60)
    records = draw(st.lists(st.tuples(st.none() | small, st.none() | small), max_size=8))
    codec = draw(st.sampled_from(list(Compression)))
    numbers = st.sampled_from([-1, 0, 1, 5, 2**31 - 1, -(2**31)])
    fields: dict[str, Any] = {"attributes": int(codec)}
    plain = crafted_batch(records)[61:]
    if codec:
        fields["body"] = compress(plain, codec)
    if draw(st.booleans()):
        fields["attributes"] = draw(st.sampled_from([int(codec), int(codec) | 0x10, int(codec) | 0x20, 0x7FFF, 7, 8]))
        for name in ("last_offset_delta", "count", "base_sequence", "leader_epoch"):
            if draw(st.booleans()):
                fields[name] = draw(numbers)
        fields["producer_id"] = draw(st.sampled_from([-1, 0, 7, 8, 2**62, -5]))
        fields["producer_epoch"] = draw(st.sampled_from([-1, 0, 1, 2**15 - 1]))
        fields["base_timestamp"] = draw(st.sampled_from([-1, 0, 1_700_000_000_000, 2**63 - 20, -(2**63)]))
        fields["max_timestamp"] = draw(st.sampled_from([-1, 0, 1_700_000_000_000, 2**63 - 1, -(2**63)]))
    batch = crafted_batch(records, **fields)
    if draw(st.booleans()):
        return batch
    harmed = bytearray(draw(mutations(batch)))
    if len(harmed) > 61 and draw(st.booleans()):
        struct.pack_into(">i", harmed, 8, len(harmed) - 12)
        struct.pack_into(">I", harmed, 17, crc32c.crc32c(bytes(harmed[21:])))
    return bytes(harmed)


@st.composite
def produces(draw: st.DrawFn) -> bytes:
    records = b"".join(draw(st.lists(batches(), min_size=1, max_size=2)))
    topics = [
        TopicProduceData(
            name=draw(st.sampled_from(sorted(FUZZED))), partition_data=[PartitionProduceData(records=records)]
        )
    ]
    acks = draw(st.sampled_from([1, -1, 0]))
    transactional_id = draw(st.sampled_from([None, None, "fuzz"]))
    request = ProduceRequest(acks=acks, timeout_ms=100, topic_data=topics, transactional_id=transactional_id)
    version = draw(st.sampled_from([3, 7, 9, 12]))
    return bytes(request_frame(request, version, 1, "fuzz"))


class HonestClient(threading.Thread):
    """Writes and reads its own topic, and believes nothing but its own records."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.enough = threading.Event()
        self.rounds = 0
        self.source = random.Random(0)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self.node.connect() as connection:
                offset = 0
                while not self.enough.wait(0.002):
                    offset = self._round(connection, offset)
                    self.rounds += 1
        except BaseException as error:
            self.failure = error

    def _round(self, connection: Connection, offset: int) -> int:
        values = [b"%d %d " % (self.rounds, number) + self.source.randbytes(50) for number in range(3)]
        batch = crafted_batch([(b"key", value) for value in values], base_timestamp=time.time_ns() // 1_000_000)
        data = [TopicProduceData(name="honest", partition_data=[PartitionProduceData(records=batch)])]
        answer = connection.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, offset), result
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MIB)
        request = FetchRequest(max_wait_ms=0, max_bytes=MIB, topics=[FetchTopic(topic="honest", partitions=[asked])])
        found = connection.request(request, 12).responses[0].partitions[0]
        assert (found.error_code, found.high_watermark) == (0, offset + 3), found
        records = [each for at, _ in iterate_batches(found.records) for each in decode_records(found.records, at)]
        assert [(each.offset, each.value) for each in records] == list(enumerate(values, offset))
        return offset + 3

    def end(self) -> None:
        self.enough.set()
        self.join(60)
        if self.failure is not None:
            raise self.failure


def tell(node: Node, data: bytes) -> None:
    """Sends it and waits for an answer or the end, a moment at most: some requests wait as long as they say."""
    with suppress(OSError, ClientError), node.connect() as connection:
        connection._socket.settimeout(PATIENCE_S)
        connection._socket.sendall(data)
        connection._socket.recv(65536)


def attack(node: Node, number: int, until: float) -> int:
    """Some hundred examples of each kind; how many were told."""
    told = 0

    def campaign(kind: Callable[[], st.SearchStrategy[bytes]]) -> None:
        @seed(number)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(kind())
        def example(data: bytes) -> None:
            nonlocal told
            if time.monotonic() < until:
                told += 1
                tell(node, data)

        example()

    for kind in (requests, produces):
        campaign(kind)
    assert node.running
    return told


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def forget(node: Node) -> None:
    """Whatever the fuzzer has made is deleted: topics, configurations, groups."""
    node.reset()
    with node.connect() as connection:
        groups = [each.group_id for each in connection.request(ListGroupsRequest(), 4).groups]
        if groups:
            connection.request(DeleteGroupsRequest(groups_names=groups), 2)


def prepare(node: Node) -> HonestClient:
    for topic, config in FUZZED.items():
        node.create_topic(topic, config=config)
    node.create_topic("honest", config={"segment.bytes": 1_000_000, "retention.bytes": 4_000_000})
    honest = HonestClient(node)
    honest.start()
    return honest


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_whatever_is_sent_the_node_lives_and_serves_the_honest(tools: SimpleNamespace) -> None:
    given_seed = int(os.environ.get("BARNABAS_SEED", random.randrange(1 << 30)))
    print(f"BARNABAS_SEED={given_seed}")
    config = {"log.initial.task.delay.ms": 1000, "log.retention.check.interval.ms": 1000}
    with Node(config | {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}) as node:
        told, number = 0, given_seed
        sizes = []
        for seconds in (WARM_UP * SECONDS, (1 - WARM_UP) * SECONDS):
            honest = prepare(node)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                told += attack(node, number, until)
                number += 1
                assert honest.failure is None, honest.failure
            honest.end()
            assert honest.rounds > 10
            forget(node)
            gc.collect()
            sizes.append(rss_bytes(node.pid))
        said = node.log()
        before, after = sizes
        print(f"{told} messages; {before / MIB:.1f} MiB before, {after / MIB:.1f} MiB after")
        assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:5000]
        assert after <= GROWTH * before + CACHES_BYTES
