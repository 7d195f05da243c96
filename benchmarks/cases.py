"""The cases: what one round of each does to one server, and which rows it fills."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest
from benchmarks import load, process
from benchmarks.case import Case, Figures, Settings, connection, drop_topic, new_topic, percentiles, timed
from benchmarks.group_cases import GROUP_CASES
from benchmarks.log_cases import LOG_CASES
from benchmarks.modern_cases import MODERN_CASES
from benchmarks.path_cases import PATH_CASES
from benchmarks.sides import Side
from benchmarks.tool_cases import TOOL_CASES
from tests.support.reference_exchange import Connection


def start(side: Side, settings: Settings) -> Figures:
    first = timed(side.start)
    side.stop()
    return {"start.first": first, "start.again": timed(side.restart)}


def recovery(side: Side, settings: Settings) -> Figures:
    side.start()
    topic = new_topic(side, "recovery")
    load.produce(side.bootstrap_servers, topic, settings.recovery_records, 100)
    side.kill()
    began = time.perf_counter()
    side.restart()
    load.produce_until_acknowledged(side.bootstrap_servers, topic)
    return {"recovery.writable": time.perf_counter() - began}


def produce(side: Side, settings: Settings) -> Figures:
    figures: Figures = {}
    for record_bytes in (100, 1000):
        topic = new_topic(side, f"produce-{record_bytes}")
        records = settings.records(record_bytes)
        figures |= _rate_and_cpu(f"produce.{record_bytes}", side, records, load.produce, topic, records, record_bytes)
        drop_topic(side, topic)
    return figures


def consume(side: Side, settings: Settings) -> Figures:
    figures: Figures = {}
    for record_bytes in (100, 1000):
        records = settings.records(record_bytes)
        topic = _filled_topic(side, settings, f"consume-{record_bytes}", records, record_bytes)
        figures |= _rate_and_cpu(f"consume.{record_bytes}", side, records, load.consume, topic, records)
    return figures


def inflight(side: Side, settings: Settings) -> Figures:
    topic = new_topic(side, "inflight")
    took = load.one_in_flight(side.bootstrap_servers, topic, settings.inflight_requests, 100)
    drop_topic(side, topic)
    return {"inflight.rate": len(took) / sum(took), **percentiles("inflight", took)}


def latency(side: Side, settings: Settings) -> Figures:
    topic = new_topic(side, "latency")
    took = load.end_to_end(side.bootstrap_servers, topic, 1_000, settings.latency_s)
    drop_topic(side, topic)
    return percentiles("latency", took)


def memory(side: Side, settings: Settings) -> Figures:
    """After load means: after two million records in and out (and whatever cases ran before)."""
    topic = _filled_topic(side, settings, "consume-100", settings.records_100, 100)
    load.consume(side.bootstrap_servers, topic, settings.records_100)
    return {"memory.idle": settings.idle_mb[side.name], "memory.loaded": process.resident_mb(side.pid)}


def metadata(side: Side, settings: Settings) -> Figures:
    for number in range(20):
        key = f"{side.name} metadata {number}"
        if key not in settings.topics:
            settings.topics[key] = new_topic(side, "metadata", partitions=100)
    with connection(side) as asked:
        took = [
            _answered_in(asked, MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
            for _ in range(settings.metadata_requests)
        ]
    return percentiles("metadata", took)


def middle(side: Side, settings: Settings) -> Figures:
    """Fetches of one batch or two around the middle of both partitions in turns, from the page cache."""
    record_bytes = 10_000
    filled: dict[str, tuple[str, int]] = {}
    for size, megabytes in (("small", settings.small_mb), ("large", settings.large_mb)):
        records = megabytes * 1_000_000 // record_bytes
        topic = _filled_topic(side, settings, f"middle-{size}", records, record_bytes, **{"batch.size": 50_000})
        filled[size] = (topic, records)
    took: dict[str, list[float]] = {size: [] for size in filled}
    with connection(side) as asked:
        for number in range(settings.middle_fetches):
            for size, (topic, records) in filled.items():
                offset = records // 2 + number % (records // 5)
                took[size].append(_answered_in(asked, _fetch(topic, offset), 11))
    small, large = (statistics.median(took[size]) * 1e3 for size in ("small", "large"))
    return {"middle.small": small, "middle.large": large, "middle.factor": large / small}


CASES = [
    Case("start", "start to the first Metadata answer", start, alone=True),
    Case("recovery", "writable again after kill -9", recovery, alone=True, warm=False),
    Case("produce", "produce 100 B and 1 KB records", produce, ceiling=True),
    Case("consume", "consume 100 B and 1 KB records", consume),
    Case("inflight", "one request in flight", inflight, ceiling=True),
    Case("latency", "end to end at 1,000 messages/s", latency),
    Case("memory", "memory idle and after load", memory, warm=False, once=True),
    Case("metadata", "Metadata for 2,000 partitions", metadata),
    Case("middle", "fetch from the middle of a large partition", middle),
    *GROUP_CASES,
    *MODERN_CASES,
    *TOOL_CASES,
    *PATH_CASES,
    *LOG_CASES,
]


def _rate_and_cpu(name: str, side: Side, records: int, work: Callable[..., float], *args: Any) -> Figures:
    before = process.cpu_seconds(side.pid)
    took = work(side.bootstrap_servers, *args)
    used = process.cpu_seconds(side.pid) - before
    return {f"{name}.rate": records / took, f"{name}.cpu": used / records * 1e6}


def _filled_topic(side: Side, settings: Settings, purpose: str, records: int, record_bytes: int, **client: Any) -> str:
    key = f"{side.name} {purpose}"
    if key not in settings.topics:
        topic = new_topic(side, purpose)
        load.produce(side.bootstrap_servers, topic, records, record_bytes, **client)
        settings.topics[key] = topic
    return settings.topics[key]


def _fetch(topic: str, offset: int) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=65_536)
    return FetchRequest(
        max_wait_ms=1_000, min_bytes=1, max_bytes=65_536, topics=[FetchTopic(topic=topic, partitions=[part])]
    )


def _answered_in(asked: Connection, request: Any, version: int) -> float:
    """Until the whole answer has arrived; it is not decoded."""
    began = time.perf_counter()
    asked.send(request, version)
    frame = asked.receive_frame()
    took = time.perf_counter() - began
    if len(frame) < 1_000:
        raise RuntimeError(f"{type(request).__name__} was answered with {len(frame)} bytes only")
    return took
