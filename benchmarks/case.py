"""What a case is, how much of everything it does, and what the cases share."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks import load
from benchmarks.sides import MockSide, Side
from tests.support.reference_exchange import Connection

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
    path_requests: int = 5_000
    path_warmups: int = 5_000
    compaction_mb: int = 2_000
    compaction_keys: int = 200_000
    many_keys: int = 10_000_000
    partitions: int = 2_000
    partition_records: int = 200_000
    idle_cpu_s: float = 20.0
    retention_segments: int = 10_000
    recompression_mb: int = 300
    new_topics: int = 1_000
    paced_rate: int = 2_000
    paced_s: float = 10.0
    commits: int = 5_000
    subscriptions: int = 10
    group_members: int = 200
    rebalances: int = 30
    transactions_100: int = 500
    transactions_10000: int = 40
    loaded_offsets: int = 1_000_000
    heartbeats: int = 50_000
    shared_records: int = 1_000_000
    acknowledgements: int = 8_000
    idle_groups: int = 1_000
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
            path_requests=200,
            path_warmups=200,
            compaction_mb=200,
            compaction_keys=20_000,
            many_keys=200_000,
            partitions=200,
            partition_records=20_000,
            idle_cpu_s=3.0,
            retention_segments=500,
            recompression_mb=30,
            new_topics=100,
            paced_s=2.0,
            commits=1_000,
            subscriptions=3,
            rebalances=10,
            transactions_100=100,
            transactions_10000=10,
            heartbeats=10_000,
            shared_records=100_000,
            acknowledgements=2_000,
        )

    def records(self, record_bytes: int) -> int:
        return self.records_100 if record_bytes == 100 else self.records_1000


@dataclass(frozen=True)
class Case:
    """`alone`: the case starts and ends servers of its own. `ceiling`: the mock cluster shows the client's limit.

    `heavy`: gigabytes or minutes; it is run when it is named.
    """

    name: str
    about: str
    measure: Callable[[Side, Settings], Figures]
    alone: bool = False
    warm: bool = True
    once: bool = False
    ceiling: bool = False
    heavy: bool = False


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def percentiles(name: str, took_s: list[float]) -> Figures:
    return {f"{name}.p50": load.percentile(took_s, 50) * 1e3, f"{name}.p99": load.percentile(took_s, 99) * 1e3}


def new_topic(side: Side, purpose: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
    topic = f"{purpose}-{os.urandom(4).hex()}"
    if not isinstance(side, MockSide):  # which makes topics by itself
        load.create_topic(side.bootstrap_servers, topic, partitions, config)
    return topic


def drop_topic(side: Side, topic: str) -> None:
    if not isinstance(side, MockSide):
        load.delete_topic(side.bootstrap_servers, topic)


def connection(side: Side) -> Connection:
    host, _, port = side.bootstrap_servers.rpartition(":")
    return Connection(host, int(port), client_id="benchmark")
