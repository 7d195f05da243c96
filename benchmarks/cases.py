"""The cases: what one round of each does to one server, and which rows it fills."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.testing.reference_exchange import Connection
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest
from benchmarks import load, process
from benchmarks.sides import MockSide, Side

Figures = dict[str, float]


@dataclass
class Settings:
    """How much of everything; `quick` is for trying the harness, not for figures to publish."""

    rounds: int = 3
    warmups: int = 2
    records_100: int = 2_000_000
    records_1000: int = 300_000
    inflight_requests: int = 10_000
    latency_s: float = 10.0
    idle_s: float = 5.0
    recovery_records: int = 500_000
    metadata_requests: int = 300
    small_mb: int = 5
    large_mb: int = 5_000
    middle_fetches: int = 300
    compaction_mb: int = 2_000
    compaction_keys: int = 200_000
    topics: dict[str, str] = field(default_factory=dict)  # filled once per server, by server and purpose
    idle_mb: Figures = field(default_factory=dict)  # by server, taken before any load

    @classmethod
    def quick(cls) -> "Settings":
        return cls(
            rounds=1,
            warmups=1,
            records_100=200_000,
            records_1000=40_000,
            inflight_requests=1_000,
            latency_s=3.0,
            idle_s=1.0,
            recovery_records=50_000,
            metadata_requests=50,
            large_mb=100,
            middle_fetches=50,
            compaction_mb=200,
            compaction_keys=20_000,
        )

    def records(self, record_bytes: int) -> int:
        return self.records_100 if record_bytes == 100 else self.records_1000


@dataclass(frozen=True)
class Case:
    """`alone`: the case starts and ends servers of its own. `ceiling`: the mock cluster shows the client's limit."""

    name: str
    about: str
    measure: Callable[[Side, Settings], Figures]
    alone: bool = False
    warm: bool = True
    once: bool = False
    ceiling: bool = False


def start(side: Side, settings: Settings) -> Figures:
    first = _timed(side.start)
    side.stop()
    return {"start.first": first, "start.again": _timed(side.restart)}


def recovery(side: Side, settings: Settings) -> Figures:
    side.start()
    topic = _new_topic(side, "recovery")
    load.produce(side.bootstrap_servers, topic, settings.recovery_records, 100)
    side.kill()
    began = time.perf_counter()
    side.restart()
    load.produce_until_acknowledged(side.bootstrap_servers, topic)
    return {"recovery.writable": time.perf_counter() - began}


def produce(side: Side, settings: Settings) -> Figures:
    figures: Figures = {}
    for record_bytes in (100, 1000):
        topic = _new_topic(side, f"produce-{record_bytes}")
        records = settings.records(record_bytes)
        figures |= _rate_and_cpu(f"produce.{record_bytes}", side, records, load.produce, topic, records, record_bytes)
        _drop_topic(side, topic)
    return figures


def consume(side: Side, settings: Settings) -> Figures:
    figures: Figures = {}
    for record_bytes in (100, 1000):
        records = settings.records(record_bytes)
        topic = _filled_topic(side, settings, f"consume-{record_bytes}", records, record_bytes)
        figures |= _rate_and_cpu(f"consume.{record_bytes}", side, records, load.consume, topic, records)
    return figures


def inflight(side: Side, settings: Settings) -> Figures:
    topic = _new_topic(side, "inflight")
    took = load.one_in_flight(side.bootstrap_servers, topic, settings.inflight_requests, 100)
    _drop_topic(side, topic)
    return {"inflight.rate": len(took) / sum(took), **_percentiles("inflight", took)}


def latency(side: Side, settings: Settings) -> Figures:
    topic = _new_topic(side, "latency")
    took = load.end_to_end(side.bootstrap_servers, topic, 1_000, settings.latency_s)
    _drop_topic(side, topic)
    return _percentiles("latency", took)


def memory(side: Side, settings: Settings) -> Figures:
    """After load means: after two million records in and out (and whatever cases ran before)."""
    topic = _filled_topic(side, settings, "consume-100", settings.records_100, 100)
    load.consume(side.bootstrap_servers, topic, settings.records_100)
    return {"memory.idle": settings.idle_mb[side.name], "memory.loaded": process.resident_mb(side.pid)}


def metadata(side: Side, settings: Settings) -> Figures:
    for number in range(20):
        key = f"{side.name} metadata {number}"
        if key not in settings.topics:
            settings.topics[key] = _new_topic(side, "metadata", partitions=100)
    with _connection(side) as connection:
        took = [
            _answered_in(connection, MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
            for _ in range(settings.metadata_requests)
        ]
    return _percentiles("metadata", took)


def middle(side: Side, settings: Settings) -> Figures:
    """Fetches of one batch or two around the middle of both partitions in turns, from the page cache."""
    record_bytes = 10_000
    filled: dict[str, tuple[str, int]] = {}
    for size, megabytes in (("small", settings.small_mb), ("large", settings.large_mb)):
        records = megabytes * 1_000_000 // record_bytes
        topic = _filled_topic(side, settings, f"middle-{size}", records, record_bytes, **{"batch.size": 50_000})
        filled[size] = (topic, records)
    took: dict[str, list[float]] = {size: [] for size in filled}
    with _connection(side) as connection:
        for number in range(settings.middle_fetches):
            for size, (topic, records) in filled.items():
                offset = records // 2 + number % (records // 5)
                took[size].append(_answered_in(connection, _fetch(topic, offset), 11))
    small, large = (statistics.median(took[size]) * 1e3 for size in ("small", "large"))
    return {"middle.small": small, "middle.large": large, "middle.factor": large / small}


def compaction(side: Side, settings: Settings) -> Figures:
    """1 KB records, most of them superseded. Produce goes on to another topic, before and while the log is cleaned."""
    side.start()
    segment = {"segment.bytes": "67108864"}
    topic, other = (_new_topic(side, f"compaction-{each}", config=segment) for each in ("log", "other"))
    records = settings.compaction_mb * 1_000
    load.produce_keyed(side.bootstrap_servers, topic, records, 980, settings.compaction_keys)
    os.sync()
    load.one_in_flight(side.bootstrap_servers, other, 2_000, 100)
    quiet = load.one_in_flight(side.bootstrap_servers, other, settings.inflight_requests, 100)
    *closed, _ = sorted((side.data_dir / f"{topic}-0").glob("*.log"))
    closed_bytes = sum(path.stat().st_size for path in closed)
    checkpoint = side.data_dir / "cleaner-offset-checkpoint"
    cpu_before = process.cpu_seconds(side.pid)
    load.configure(side.bootstrap_servers, load.ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
    began = time.perf_counter()
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    load.configure(side.bootstrap_servers, load.ResourceType.TOPIC, topic, compact)
    busy = load.one_in_flight_while(
        side.bootstrap_servers,
        other,
        100,
        lambda: not checkpoint.exists() or topic not in checkpoint.read_text(),
    )
    took = time.perf_counter() - began
    figures = {
        "compaction.rate": closed_bytes / took / 1e6,
        "compaction.cpu": (process.cpu_seconds(side.pid) - cpu_before) / closed_bytes * 1e9,
    }
    for name, latencies in (("quiet", quiet), ("busy", busy)):
        figures |= _percentiles(f"compaction.{name}", latencies)
    return figures | {"compaction.factor": figures["compaction.busy.p99"] / figures["compaction.quiet.p99"]}


CASES = [
    Case("start", "start to the first Metadata answer", start, alone=True),
    Case("recovery", "writable again after kill -9", recovery, alone=True, warm=False),
    Case("produce", "produce 100 B and 1 KB records", produce, ceiling=True),
    Case("consume", "consume 100 B and 1 KB records", consume),
    Case("inflight", "one request in flight", inflight, ceiling=True),
    Case("latency", "end to end at 1,000 messages/s", latency),
    Case("memory", "memory idle and after load", memory, warm=False, once=True),
    Case("metadata", "Metadata for 2,000 partitions", metadata),
    Case("compaction", "compaction, and produce beside it", compaction, alone=True, warm=False),
    Case("middle", "fetch from the middle of a large partition", middle),
]


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _percentiles(name: str, took_s: list[float]) -> Figures:
    return {f"{name}.p50": load.percentile(took_s, 50) * 1e3, f"{name}.p99": load.percentile(took_s, 99) * 1e3}


def _rate_and_cpu(name: str, side: Side, records: int, work: Callable[..., float], *args: Any) -> Figures:
    before = process.cpu_seconds(side.pid)
    took = work(side.bootstrap_servers, *args)
    used = process.cpu_seconds(side.pid) - before
    return {f"{name}.rate": records / took, f"{name}.cpu": used / records * 1e6}


def _new_topic(side: Side, purpose: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
    topic = f"{purpose}-{os.urandom(4).hex()}"
    if not isinstance(side, MockSide):  # which makes topics by itself
        load.create_topic(side.bootstrap_servers, topic, partitions, config)
    return topic


def _drop_topic(side: Side, topic: str) -> None:
    if not isinstance(side, MockSide):
        load.delete_topic(side.bootstrap_servers, topic)


def _filled_topic(side: Side, settings: Settings, purpose: str, records: int, record_bytes: int, **client: Any) -> str:
    key = f"{side.name} {purpose}"
    if key not in settings.topics:
        topic = _new_topic(side, purpose)
        load.produce(side.bootstrap_servers, topic, records, record_bytes, **client)
        settings.topics[key] = topic
    return settings.topics[key]


def _connection(side: Side) -> Connection:
    host, _, port = side.bootstrap_servers.rpartition(":")
    return Connection(host, int(port), client_id="benchmark")


def _fetch(topic: str, offset: int) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=65_536)
    return FetchRequest(
        max_wait_ms=1_000, min_bytes=1, max_bytes=65_536, topics=[FetchTopic(topic=topic, partitions=[part])]
    )


def _answered_in(connection: Connection, request: Any, version: int) -> float:
    """Until the whole answer has arrived; it is not decoded."""
    began = time.perf_counter()
    connection.send(request, version)
    frame = connection.receive_frame()
    took = time.perf_counter() - began
    if len(frame) < 1_000:
        raise RuntimeError(f"{type(request).__name__} was answered with {len(frame)} bytes only")
    return took
