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
    Row("consume.100.rate", "consume 100 B", "records/s", ratio_at_least(1.0)),
    Row("consume.100.cpu", "CPU of the server per million 100 B records out", "s", ratio_at_most(1.0)),
    Row("consume.1000.rate", "consume 1 KB", "records/s", ratio_at_least(1.0)),
    Row("consume.1000.cpu", "CPU of the server per million 1 KB records out", "s"),
    Row("inflight.rate", "one in flight, 100 B, acks=1", "requests/s", ratio_at_least(1.0)),
    Row("inflight.p50", "one in flight, p50", "ms"),
    Row("inflight.p99", "one in flight, p99", "ms", ratio_at_most(1.2)),
    Row("latency.p50", "end to end at 1,000 messages/s, p50", "ms", ratio_at_most(0.8)),
    Row("latency.p99", "end to end at 1,000 messages/s, p99", "ms", ratio_at_most(1.0)),
    Row("metadata.p50", "Metadata for 2,000 partitions, p50", "ms"),
    Row("metadata.p99", "Metadata for 2,000 partitions, p99", "ms", value_at_most(5.0)),
    Row("compaction.rate", "compaction of 1 KB records", "MB/s", value_at_least(100.0)),
    Row("compaction.cpu", "CPU of the server per GB compacted, with produce beside it", "s"),
    Row("compaction.quiet.p99", "produce, one in flight, p99 before a compaction", "ms"),
    Row("compaction.busy.p99", "produce, one in flight, p99 during a compaction", "ms"),
    Row("compaction.factor", "the one to the other", "x", value_at_most(1.5)),
    Row("middle.small", "fetch of 64 KB from the middle of a small partition, p50", "ms"),
    Row("middle.large", "fetch of 64 KB from the middle of a large partition, p50", "ms"),
    Row("middle.factor", "the large one to the small one", "x", value_at_most(1.25)),
    Row("commits.rate", "offset commits of one client, one in flight", "requests/s", ratio_at_least(1.0)),
    Row("commits.pipelined.rate", "offset commits of one client, 100 in flight", "requests/s", ratio_at_least(1.0)),
    Row("group.first", "first message of a new group after subscribe, p50", "ms", ratio_at_most(0.5)),
    Row("group.prompt", "the same, if Kafka does not wait for more members either", "ms"),
    Row("group.joined", "200 members have joined one group", "ms", ratio_at_most(1.0)),
    Row("group.rebalance", "rebalance of 8 consumers over 64 partitions, p50", "ms", ratio_at_most(1.0)),
    Row("transactions.100.rate", "produce in transactions of 100 records", "records/s", ratio_at_least(1.0)),
    Row("transactions.10000.rate", "produce in transactions of 10,000 records", "records/s", ratio_at_least(1.0)),
    Row("offsets.start", "start with 1 million committed offsets until all are served", "s", value_at_most(5.0)),
]
