"""Every config of a topic that its log goes by takes effect with the next append, without a restart."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch, decode_records, read_header
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

DELETE = 1


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    config = {
        "log.flush.offset.checkpoint.interval.ms": 50,
        "log.flush.scheduler.interval.ms": 50,
        "log.flush.interval.ms": 3_600_000,
    }
    with Node(config) as running:
        yield running


@pytest.fixture
def client(node: Node, log_client: Any) -> Iterator[Any]:
    with log_client(node) as opened:
        yield opened


@pytest.fixture
def topic(node: Node, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name.removeprefix("test_").partition("[")[0]
    node.create_topic(name)
    return name


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(timestamp: int | None = None, size: int = 1000, **options: Any) -> bytearray:
    at_ms = now_ms() if timestamp is None else timestamp
    return build_batch([Record(0, at_ms, b"key", bytes(size))], **options)


def segments(node: Node, topic: str) -> list[int]:
    """Their base offsets."""
    return sorted(int(path.stem) for path in (node.data_dir / f"{topic}-0").glob("*.log"))


def lengths(node: Node, topic: str) -> list[int]:
    """How many records each finished segment has."""
    bases = segments(node, topic)
    return [end - start for start, end in itertools.pairwise(bases)]


def recovery_point(node: Node, topic: str) -> int:
    lines = (node.data_dir / "recovery-point-offset-checkpoint").read_text().splitlines()
    return next((int(line.split()[2]) for line in lines[2:] if line.startswith(f"{topic} 0 ")), -1)


def test_segment_bytes(node: Node, client: Any, topic: str) -> None:
    for _ in range(4):
        client.append(topic, batch())
    assert segments(node, topic) == [0]
    client.configure(topic, segment_bytes=2500)
    for _ in range(4):
        client.append(topic, batch())
    assert segments(node, topic) == [0, 4, 6]


def test_segment_ms(node: Node, client: Any, topic: str) -> None:
    for later_s in range(3):
        client.append(topic, batch(now_ms() + later_s * 1000))
    assert segments(node, topic) == [0]
    client.configure(topic, segment_ms=100)
    for later_s in range(4, 7):
        client.append(topic, batch(now_ms() + later_s * 1000))
    assert segments(node, topic) == [0, 3, 4, 5]


def test_segment_jitter_ms(node: Node, client: Any, topic: str) -> None:
    start_ms = now_ms() - 40 * 1800_000
    client.configure(topic, segment_ms=3600_000)
    for number in range(12):
        client.append(topic, batch(start_ms + number * 1800_000))
    assert lengths(node, topic) == [3, 3, 3]
    client.configure(topic, segment_jitter_ms=3600_000)
    for number in range(12, 40):
        client.append(topic, batch(start_ms + number * 1800_000))
    assert set(lengths(node, topic)[4:]) <= {1, 2}


def test_index_interval_bytes(node: Node, client: Any, topic: str) -> None:
    client.configure(topic, segment_bytes=10 * len(batch()))
    for _ in range(10):
        client.append(topic, batch())
    client.configure(topic, index_interval_bytes=0)
    for _ in range(11):
        client.append(topic, batch())
    sizes = [(node.data_dir / f"{topic}-0" / f"{base:020d}.index").stat().st_size for base in (0, 10)]
    assert sizes == [16, 72]


def test_segment_index_bytes(node: Node, client: Any, topic: str) -> None:
    client.configure(topic, index_interval_bytes=0)
    for _ in range(20):
        client.append(topic, batch())
    assert segments(node, topic) == [0]
    client.configure(topic, segment_index_bytes=120)
    for number in range(20):
        client.append(topic, batch(now_ms() + number))
    assert len(segments(node, topic)) > 2


def test_preallocate(node: Node, client: Any, topic: str, raw: SimpleNamespace) -> None:
    path = node.data_dir / f"{topic}-0"
    size = len(batch())
    client.configure(topic, segment_bytes=4 * size, preallocate="true")
    for _ in range(6):
        client.append(topic, batch())
    sizes = [(path / f"{base:020d}.log").stat().st_size for base in (0, 4)]
    assert sizes == [4 * size, 4 * size]
    assert client.offset(topic, -1) == 6
    assert len(client.fetch(topic, 4).records) == 2 * size
    client.append(topic, batch())
    client.append(topic, batch())
    client.append(topic, batch())
    assert segments(node, topic) == [0, 4, 8]
    node.kill()
    node.start()
    client.reconnect()
    assert client.offset(topic, -1) == 9
    assert (path / f"{8:020d}.log").stat().st_size == size
    client.append(topic, batch())
    node.restart()
    client.reconnect()
    assert client.offset(topic, -1) == 10


def test_flush_messages(node: Node, client: Any, topic: str, raw: SimpleNamespace) -> None:
    client.append(topic, batch())
    raw.wait_until(lambda: recovery_point(node, topic) == 0)
    client.configure(topic, flush_messages=3)
    client.append(topic, batch())
    client.append(topic, batch())
    raw.wait_until(lambda: recovery_point(node, topic) == 3)
    client.append(topic, batch())
    time.sleep(0.2)
    assert recovery_point(node, topic) == 3


def test_flush_ms(node: Node, client: Any, topic: str, raw: SimpleNamespace) -> None:
    client.append(topic, batch())
    raw.wait_until(lambda: recovery_point(node, topic) == 0)
    client.configure(topic, flush_ms=10)
    raw.wait_until(lambda: recovery_point(node, topic) == 1)
    client.append(topic, batch())
    raw.wait_until(lambda: recovery_point(node, topic) == 2)


def test_max_message_bytes(client: Any, topic: str) -> None:
    client.append(topic, batch())
    client.configure(topic, max_message_bytes=500)
    assert client.produce(topic, batch()).error_code == ErrorCode.MESSAGE_TOO_LARGE
    client.append(topic, batch(size=100))


def test_message_timestamp_type(client: Any, topic: str) -> None:
    assert client.produce(topic, batch(1_000)).log_append_time_ms == -1
    client.configure(topic, message_timestamp_type="LogAppendTime")
    assert abs(client.produce(topic, batch(1_000)).log_append_time_ms - now_ms()) < 60_000


@pytest.mark.parametrize(("config", "shift_ms"), [("before", -10_000), ("after", 10_000)])
def test_message_timestamp_bounds(
    client: Any, node: Node, config: str, shift_ms: int, request: pytest.FixtureRequest
) -> None:
    topic = f"bounds-{config}"
    node.create_topic(topic)
    client.append(topic, batch(now_ms() + shift_ms))
    client.configure(topic, **{f"message_timestamp_{config}_max_ms": 5_000})
    assert client.produce(topic, batch(now_ms() + shift_ms)).error_code == ErrorCode.INVALID_TIMESTAMP
    client.append(topic, batch())


def test_min_insync_replicas(client: Any, topic: str) -> None:
    client.append(topic, batch())
    client.configure(topic, min_insync_replicas=2)
    client.append(topic, batch())  # more than there are replicas counts as all of them


def test_cleanup_policy(client: Any, topic: str) -> None:
    without_key = build_batch([Record(0, now_ms(), None, b"value")])
    client.append(topic, without_key)
    client.configure(topic, cleanup_policy="compact")
    assert client.produce(topic, without_key).error_code == ErrorCode.INVALID_RECORD
    client.configure(topic, cleanup_policy="compact,delete")
    assert client.produce(topic, without_key).error_code == ErrorCode.INVALID_RECORD
    client.configure(topic, cleanup_policy="delete")
    client.append(topic, without_key)


def test_compression_type(client: Any, topic: str) -> None:
    for name in ("gzip", "snappy", "lz4", "zstd", "uncompressed"):
        client.configure(topic, compression_type=name)
        stored = client.fetch(topic, client.append(topic, batch(compression=Compression.SNAPPY))).records
        assert read_header(stored).compression is Compression.named(name)
        assert decode_records(stored)[0].value == bytes(1000)


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", 1, 19)])
def test_compression_levels(client: Any, node: Node, codec: str, low: int, high: int) -> None:
    topic = f"levels-{codec}"
    node.create_topic(topic, config={"compression.type": codec})
    text = b" ".join(b"reading %d of sensor %d" % (i * 7919 % 10007, i % 13) for i in range(9000))
    sizes = []
    for level in (low, high):
        client.configure(topic, **{f"compression_{codec}_level": level})
        offset = client.append(topic, build_batch([Record(0, now_ms(), b"key", text)]))
        sizes.append(len(client.fetch(topic, offset).records))
    assert sizes[1] < sizes[0] < len(text)


def test_a_config_that_is_taken_back_is_the_broker_s_again(node: Node, client: Any, topic: str) -> None:
    client.configure(topic, max_message_bytes=500)
    assert client.produce(topic, batch()).error_code == ErrorCode.MESSAGE_TOO_LARGE
    change = AlterableConfig(name="max.message.bytes", config_operation=DELETE, value=None)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
    client.connection.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    client.append(topic, batch())


def test_a_default_of_the_broker_reaches_its_topics(node: Node, client: Any, topic: str) -> None:
    def set_default(operation: int) -> None:
        change = AlterableConfig(name="message.max.bytes", config_operation=operation, value="500")
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
        [result] = client.connection.request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert result.error_code == 0

    set_default(0)
    assert client.produce(topic, batch()).error_code == ErrorCode.MESSAGE_TOO_LARGE
    set_default(DELETE)
    client.append(topic, batch())
