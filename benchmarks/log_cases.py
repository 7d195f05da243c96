"""The cases of the log in depth: starts with many partitions and with much data, compaction, retention, recompression.

What runs in the background is measured with a producer at a steady pace beside it.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import ResourceType

from benchmarks import load, process
from benchmarks.case import Case, Figures, Settings, new_topic, timed
from benchmarks.paced import PacedProducer
from benchmarks.rows import CODECS
from benchmarks.sides import Side

TOPICS = 20
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LIMIT_S = 1_200.0


def partitions(side: Side, settings: Settings) -> Figures:
    """A record in each of 20 topics has to be acknowledged before a start counts as done."""
    side.start()
    each = settings.partitions // TOPICS
    topics = [f"partitions-{number}" for number in range(TOPICS)]
    for topic in topics:
        load.create_topic(side.bootstrap_servers, topic, each)
    load.produce_everywhere(side.bootstrap_servers, topics, each, settings.partition_records)
    side.stop()
    os.sync()
    clean = _until_writable(side, topics)
    idle = _cpu_percent(side, settings.idle_cpu_s)
    load.produce_everywhere(side.bootstrap_servers, topics, each, settings.partition_records)
    side.kill()
    return {
        "partitions.clean": clean,
        "partitions.unclean": _until_writable(side, topics),
        "partitions.idle": idle,
        "partitions.memory": process.resident_mb(side.pid),
    }


def _until_writable(side: Side, topics: list[str]) -> float:
    began = time.perf_counter()
    side.start()
    load.produce_everywhere(side.bootstrap_servers, topics, 1, len(topics))
    return time.perf_counter() - began


def _cpu_percent(side: Side, seconds: float) -> float:
    time.sleep(3)  # what a start leaves behind
    before, began = process.cpu_seconds(side.pid), time.perf_counter()
    time.sleep(seconds)
    return (process.cpu_seconds(side.pid) - before) / (time.perf_counter() - began) * 100


def large(side: Side, settings: Settings) -> Figures:
    """After the kill the checkpoint of recovery points is removed, so that both scan everything."""
    side.start()
    topic = new_topic(side, "large")
    records = settings.large_mb * 100
    load.produce(side.bootstrap_servers, topic, records, 10_000)
    side.stop()
    os.sync()
    clean = _until_writable(side, [topic])
    side.kill()
    (side.data_dir / RECOVERY_POINTS).unlink(missing_ok=True)
    return {"large.clean": clean, "large.unclean": _until_writable(side, [topic])}


def compaction(side: Side, settings: Settings) -> Figures:
    """1 KB records, most of them superseded. A producer goes on beside it, before and while the log is cleaned."""
    side.start()
    topic, other = new_topic(side, "compaction-log", config={"segment.bytes": "67108864"}), new_topic(side, "other")
    load.produce_keyed(side.bootstrap_servers, topic, settings.compaction_mb * 1_000, 980, settings.compaction_keys)
    *closed, _ = sorted((side.data_dir / f"{topic}-0").glob("*.log"))
    closed_bytes = sum(path.stat().st_size for path in closed)
    checkpoint = side.data_dir / "cleaner-offset-checkpoint"
    load.configure(side.bootstrap_servers, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})

    def compact() -> float:
        began = time.perf_counter()
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        load.configure(side.bootstrap_servers, ResourceType.TOPIC, topic, config)
        _until(lambda: checkpoint.exists() and topic in checkpoint.read_text())
        return time.perf_counter() - began

    cpu_before = process.cpu_seconds(side.pid)
    took, figures = _beside_paced(side, settings, "compaction", other, compact)
    cpu = process.cpu_seconds(side.pid) - cpu_before
    return figures | {"compaction.rate": closed_bytes / took / 1e6, "compaction.cpu": cpu / closed_bytes * 1e9}


def keys(side: Side, settings: Settings) -> Figures:
    """More keys than the dedupe buffer of 128 MB holds at once: 100 B records, every key twice, in one partition."""
    side.start()
    count = settings.many_keys
    topic = new_topic(side, "keys", config={"segment.bytes": str(max(25 * count, 1 << 20))})
    for _ in range(2):
        load.produce_keyed(side.bootstrap_servers, topic, count, 80, count)
    before_mb = process.resident_mb(side.pid)
    peaks: dict[int, float] = {}
    load.configure(side.bootstrap_servers, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    load.configure(side.bootstrap_servers, ResourceType.TOPIC, topic, config)
    checkpoint = side.data_dir / "cleaner-offset-checkpoint"
    active = max(int(path.stem) for path in (side.data_dir / f"{topic}-0").glob("*.log"))

    def is_clean() -> bool:
        peaks.update(process.peak_mb(side.pid))
        if not checkpoint.exists():
            return False
        rows = [line.split() for line in checkpoint.read_text().splitlines()[2:]]
        return any(row[0] == topic and int(row[2]) >= active for row in rows)

    cpu_before = process.cpu_seconds(side.pid)
    took = timed(lambda: _until(is_clean))
    cpu = process.cpu_seconds(side.pid) - cpu_before
    children = [peak for pid, peak in peaks.items() if pid != side.pid]
    figures = {"keys.took": took, "keys.cpu": cpu, "keys.server": peaks[side.pid] - before_mb}
    return figures | ({"keys.cleaner": max(children)} if children else {})


def retention(side: Side, settings: Settings) -> Figures:
    """So many segments of one record each; timed from the first that goes until the last is removed from the disk."""
    side.set("log.retention.check.interval.ms", "1000")
    side.set("log.initial.task.delay.ms", "500")
    side.start()
    config = {"internal.segment.bytes": "200", "segment.index.bytes": "100", "file.delete.delay.ms": "100"}
    topic, other = new_topic(side, "retention", config=config), new_topic(side, "other")
    load.produce_singly(side.bootstrap_servers, topic, settings.retention_segments, 100)
    directory = side.data_dir / f"{topic}-0"
    made = sorted(directory.glob("*.log"))
    if len(made) < settings.retention_segments:
        raise RuntimeError(f"there are {len(made)} segments instead of {settings.retention_segments}")
    first, last = made[0], made[-2]  # behind it is the active one

    def retain() -> float:
        load.configure(side.bootstrap_servers, ResourceType.TOPIC, topic, {"retention.ms": "1"})
        # A look into a directory with thousands of files holds up whoever removes them, and takes 17 ms of a processor
        # that the producer and the server need: that it is empty is looked for when the last file is gone.
        _until(lambda: not first.exists())
        began = time.perf_counter()
        _until(lambda: not (last.exists() or last.with_name(f"{last.name}.deleted").exists()))
        _until(lambda: _log_files(directory) <= 1 and not any(directory.glob("*.deleted")), every_s=0.25)
        return time.perf_counter() - began

    took, figures = _beside_paced(side, settings, "retention", other, retain)
    return figures | {"retention.took": took}


def _log_files(directory: Path) -> int:
    return sum(1 for _ in directory.glob("*.log"))


def recompression(side: Side, settings: Settings) -> Figures:
    """Records of 1 KB, made of words, sent uncompressed and as snappy to topics with a compression of their own."""
    figures: Figures = {}
    records = settings.recompression_mb * 1_000
    for sent, kept in (("none", "zstd"), ("snappy", "zstd"), ("none", "gzip"), ("none", "lz4"), ("none", "snappy")):
        topic = new_topic(side, f"recompression-{sent}-{kept}", config={"compression.type": kept})
        count = records // 5 if kept == "gzip" else records
        before = process.cpu_seconds(side.pid)
        took = load.produce_words(side.bootstrap_servers, topic, count, sent)
        figures[f"recompression.{sent}.{kept}"] = count / took / 1_000
        figures[f"recompression.{sent}.{kept}.cpu"] = (process.cpu_seconds(side.pid) - before) / count * 1e6
    topic, other = new_topic(side, "recompression-paced", config={"compression.type": "zstd"}), new_topic(side, "other")
    rate = settings.recompression_mb // 10
    _, beside = _beside_paced(
        side,
        settings,
        "recompression",
        other,
        lambda: load.produce_words(side.bootstrap_servers, topic, int(rate * 1_000 * settings.paced_s), "none", rate),
    )
    return figures | beside


def compressed(side: Side, settings: Settings) -> Figures:
    """Batches that the client has compressed and the topic keeps as they are: the server looks into them only."""
    figures: Figures = {}
    for codec in CODECS:
        topic = new_topic(side, f"compressed-{codec}")
        count = settings.recompression_mb * 1_000 // (5 if codec == "gzip" else 1)
        before = process.cpu_seconds(side.pid)
        took = load.produce_words(side.bootstrap_servers, topic, count, codec)
        figures[f"compressed.{codec}"] = count / took / 1_000
        figures[f"compressed.{codec}.cpu"] = (process.cpu_seconds(side.pid) - before) / count * 1e6
    return figures


def topics(side: Side, settings: Settings) -> Figures:
    names = [f"topics-{os.urandom(4).hex()}-{number}" for number in range(settings.new_topics)]
    return {"topics.created": load.create_topics(side.bootstrap_servers, names, 1)}


def _beside_paced(
    side: Side, settings: Settings, name: str, topic: str, work: Callable[[], float]
) -> tuple[float, Figures]:
    """How long it says that it took, and what a producer at a steady pace felt before and meanwhile."""
    _until_idle(side)
    with PacedProducer(side.bootstrap_servers, topic, settings.paced_rate) as producer:
        quiet = producer.for_seconds(settings.paced_s)
        took = work()
        busy = producer.took()
    quiet_p99, busy_p99 = (load.percentile(each, 99) * 1e3 for each in (quiet, busy))
    return took, {
        f"{name}.quiet.p99": quiet_p99,
        f"{name}.busy.p50": statistics.median(busy) * 1e3,
        f"{name}.busy.p99": busy_p99,
        f"{name}.factor": busy_p99 / quiet_p99,
    }


def _until_idle(side: Side) -> None:
    """What was written before is flushed in the background, file by file."""

    def is_idle() -> bool:
        before = process.cpu_seconds(side.pid), process.written_bytes(side.pid)
        time.sleep(1)
        used, wrote = process.cpu_seconds(side.pid) - before[0], process.written_bytes(side.pid) - before[1]
        return used < 0.2 and wrote < 1_000_000

    os.sync()
    _until(is_idle)


def _until(condition: Callable[[], bool], every_s: float = 0.02) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError(f"not so within {LIMIT_S:.0f} s")
        time.sleep(every_s)


LOG_CASES = [
    Case("compaction", "compaction, and produce beside it", compaction, alone=True, warm=False),
    Case("recompression", "recompression to a topic's own codec", recompression),
    Case("compressed", "produce of compressed batches", compressed),
    Case("topics", "creation of 1,000 topics", topics),
    Case("partitions", "starts with 2,000 partitions, and idleness", partitions, alone=True, warm=False, heavy=True),
    Case("large", "starts with one partition of 5 GB", large, alone=True, warm=False, heavy=True),
    Case("retention", "retention of 10,000 segments", retention, alone=True, warm=False, heavy=True),
    Case("keys", "compaction of 10 million keys", keys, alone=True, warm=False, once=True, heavy=True),
]
