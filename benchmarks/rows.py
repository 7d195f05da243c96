"""The rows of the table: what is measured, in which unit, and what we want to reach."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Goal:
    """A ratio of ours to Kafka's, or a figure of ours alone, that is at most or at least something."""

    of: Literal["ratio", "value"]
    bound: Literal["at most", "at least"]
    limit: float

    def met(self, ours: float, reference: float | None) -> bool | None:
        if self.of == "ratio":
            if not reference:
                return None
            ours = ours / reference
        return ours <= self.limit if self.bound == "at most" else ours >= self.limit

    def __str__(self) -> str:
        return f"{self.bound} {self.limit:g}{'' if self.of == 'value' else ' x'}"


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    goal: Goal | None = None

    @property
    def goal_beside_the_mock(self) -> Goal | None:
        """The mock cluster stores nothing, so a little less than what it takes in will do; the rest is no yardstick."""
        produced = self.key.startswith("produce.") and self.key.endswith(".rate")
        return Goal("ratio", "at least", 0.8) if produced else None


def ratio_at_most(limit: float) -> Goal:
    return Goal("ratio", "at most", limit)


def ratio_at_least(limit: float) -> Goal:
    return Goal("ratio", "at least", limit)


def value_at_most(limit: float) -> Goal:
    return Goal("value", "at most", limit)


def value_at_least(limit: float) -> Goal:
    return Goal("value", "at least", limit)


def beside(name: str, what: str, factor_max: float = 1.5) -> list[Row]:
    """What a producer at a steady pace felt."""
    return [
        Row(f"{name}.quiet.p99", f"produce at 2,000 records/s, p99 before {what}", "ms"),
        Row(f"{name}.busy.p99", f"produce at 2,000 records/s, p99 during {what}", "ms"),
        Row(f"{name}.factor", "the one to the other", "x", value_at_most(factor_max)),
    ]


CODECS = ("gzip", "snappy", "lz4", "zstd")

ROWS = [
    Row("start.first", "start on an empty directory to the first Metadata answer", "s", ratio_at_most(0.2)),
    Row("start.again", "start on a formatted directory to the first Metadata answer", "s", ratio_at_most(0.2)),
    Row("recovery.writable", "writable again after kill -9", "s", ratio_at_most(0.05)),
    Row("memory.idle", "memory, idle", "MB", ratio_at_most(0.2)),
    Row("memory.loaded", "memory, after load", "MB", ratio_at_most(0.25)),
    Row("produce.100.rate", "produce 100 B, acks=1", "records/s", ratio_at_least(1.0)),
    Row("produce.100.cpu", "CPU of the server per million 100 B records in", "s", ratio_at_most(1.0)),
    Row("produce.1000.rate", "produce 1 KB, acks=1", "records/s", ratio_at_least(1.0)),
    Row("produce.1000.cpu", "CPU of the server per million 1 KB records in", "s"),
    Row("consume.100.rate", "consume 100 B", "records/s", ratio_at_least(1.1)),
    Row("consume.100.cpu", "CPU of the server per million 100 B records out", "s", ratio_at_most(1.0)),
    Row("consume.1000.rate", "consume 1 KB", "records/s", ratio_at_least(1.1)),
    Row("consume.1000.cpu", "CPU of the server per million 1 KB records out", "s"),
    Row("inflight.rate", "one in flight, 100 B, acks=1", "requests/s", ratio_at_least(1.3)),
    Row("inflight.p50", "one in flight, p50", "ms"),
    Row("inflight.p99", "one in flight, p99", "ms", ratio_at_most(1.2)),
    Row("latency.p50", "end to end at 1,000 messages/s, p50", "ms", ratio_at_most(0.8)),
    Row("latency.p99", "end to end at 1,000 messages/s, p99", "ms", ratio_at_most(1.0)),
    Row("path.produce", "produce of one record on a raw socket, p50", "ms"),
    Row("path.delivery", "the same until a fetch that waits for it is answered, p50", "ms"),
    Row("path.echo", "an echo of the same bytes by uvloop, p50", "ms"),
    Row("path.relay", "the same bytes handed on to another socket by uvloop, p50", "ms"),
    Row("metadata.p50", "Metadata for 2,000 partitions, p50", "ms"),
    Row("metadata.p99", "Metadata for 2,000 partitions, p99", "ms", value_at_most(5.0)),
    Row("middle.small", "fetch of 64 KB from the middle of a small partition, p50", "ms"),
    Row("middle.large", "fetch of 64 KB from the middle of a large partition, p50", "ms"),
    Row("middle.factor", "the large one to the small one", "x", value_at_most(1.25)),
    Row("commits.rate", "offset commits of one client, one in flight", "requests/s", ratio_at_least(1.0)),
    Row("commits.pipelined.rate", "offset commits of one client, 100 in flight", "requests/s", ratio_at_least(1.0)),
    Row("group.first", "first message of a new group after subscribe, p50", "ms", ratio_at_most(0.5)),
    Row("group.prompt", "the same, if Kafka does not wait for more members either", "ms"),
    Row("group.joined", "200 members have joined one group", "ms", ratio_at_most(1.0)),
    Row("group.rebalance", "rebalance of 8 consumers over 64 partitions, p50", "ms", ratio_at_most(1.0)),
    Row("consumers.joined", "200 members have joined a group of the consumer protocol", "ms", ratio_at_most(1.0)),
    Row("consumers.came", "a ninth consumer has its part of 64 partitions, p50", "ms", ratio_at_most(1.0)),
    Row("consumers.went", "it has left, and the others have all, p50", "ms", ratio_at_most(1.0)),
    Row("heartbeats.rate", "heartbeats of 16 consumers, 16 of each under way", "requests/s"),
    Row("heartbeats.core", "heartbeats in a second of the server's CPU", "requests/s", value_at_least(10_000)),
    Row("share.rate", "share consume 100 B, 4 members", "records/s", ratio_at_least(0.8)),
    Row("share.cpu", "CPU of the server per million of these records", "s"),
    Row("share.acknowledge.p50", "acknowledgement of one record, one in flight, p50", "ms"),
    Row("share.acknowledge.p99", "acknowledgement of one record, one in flight, p99", "ms", ratio_at_most(1.0)),
    Row("groups.idle", "CPU of the server with 1,000 groups of one member that does nothing", "%", value_at_most(1.0)),
    Row("transactions.100.rate", "produce in transactions of 100 records", "records/s", ratio_at_least(1.0)),
    Row("transactions.10000.rate", "produce in transactions of 10,000 records", "records/s", ratio_at_least(1.0)),
    Row("offsets.start", "start with 1 million committed offsets until all are served", "s", value_at_most(5.0)),
    Row("partitions.clean", "clean start with 2,000 partitions until 20 topics take records", "s", ratio_at_most(0.5)),
    Row("partitions.unclean", "the same after kill -9", "s"),
    Row("partitions.idle", "CPU of the idle server with 2,000 partitions", "%", value_at_most(1.0)),
    Row("partitions.memory", "its memory after that start", "MB"),
    Row("large.clean", "clean start with one partition of 5 GB until it takes a record", "s", ratio_at_most(0.5)),
    Row("large.unclean", "the same after kill -9, all of it scanned", "s"),
    Row("compaction.rate", "compaction of 1 KB records, 2 GB", "MB/s", value_at_least(100.0)),
    Row("compaction.cpu", "CPU of the server per GB compacted, a paced producer included", "s"),
    *beside("compaction", "a compaction"),
    Row("keys.took", "compaction of 10 million keys, each twice", "s", ratio_at_most(1.5)),
    Row("keys.cpu", "CPU of the server meanwhile", "s"),
    Row("keys.cleaner", "peak memory of the cleaner's process meanwhile (dedupe buffer 134 MB)", "MB"),
    Row("keys.server", "what the server's own memory grew by at the peak", "MB"),
    Row("retention.took", "retention of 10,000 segments", "s"),
    *beside("retention", "retention", 2.0),
    *(
        row
        for sent, kept in (("none", "zstd"), ("snappy", "zstd"), ("none", "gzip"), ("none", "lz4"), ("none", "snappy"))
        for row in (
            Row(
                f"recompression.{sent}.{kept}",
                f"produce 1 KB, sent as {sent}, kept as {kept}",
                "MB/s",
                ratio_at_least(0.7) if kept == "zstd" else None,
            ),
            Row(f"recompression.{sent}.{kept}.cpu", "CPU of the server per GB of that", "s"),
        )
    ),
    *beside("recompression", "recompression of 30 MB/s"),
    *(
        row
        for codec in CODECS
        for row in (
            Row(f"compressed.{codec}", f"produce 1 KB, sent and kept as {codec}", "MB/s", ratio_at_least(0.9)),
            Row(f"compressed.{codec}.cpu", "CPU of the server per GB of that", "s"),
        )
    ),
    Row("topics.created", "1,000 topics by one request", "s", ratio_at_most(1.2)),
    Row("tools.produce.factor", "kafka-producer-perf-test of ours to Kafka's own", "x", value_at_least(0.8)),
    Row("tools.consume.factor", "kafka-consumer-perf-test of ours to Kafka's own", "x", value_at_least(0.8)),
    Row("tools.list", "kafka-topics --list of ours", "s", value_at_most(0.4)),
    Row("tools.list.factor", "the time of ours to that of Kafka's own", "x", value_at_most(0.3)),
]
