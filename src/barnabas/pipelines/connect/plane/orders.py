"""What goes between the worker, the plane's driver and Spark's tasks; all of it is JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

EVENTS = "BARNABAS_CONNECT_EVENTS"  # the descriptor on which the process with Spark tells the worker what happens
TURN_RECORDS, TURN_S = 100_000, 2.0
RATE = "max.records.per.second"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A connector as the worker hands it over: settings with secrets in place, and the clients' properties."""

    name: str
    kind: str  # source or sink
    place: str  # module:Class
    settings: dict[str, str]
    tasks: list[dict[str, str]]
    client: dict[str, str]  # properties of the cluster, for admin calls
    producer: dict[str, str] = field(default_factory=dict)
    consumer: dict[str, str] = field(default_factory=dict)
    offsets_topic: str | None = None
    offsets: dict[str, dict[str, Any]] = field(default_factory=dict)  # of standalone workers
    group: str = ""  # of the workers; part of transactional ids
    state: str = "RUNNING"
    former_tasks: int = 0  # how many it had before, perhaps in another worker

    @classmethod
    def parse(cls, given: dict[str, Any]) -> Self:
        return cls(**given)

    def encode(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def consumer_group(self) -> str:
        return self.consumer.get("group.id") or f"connect-{self.name}"

    @property
    def task_rate(self) -> float:
        """Records a second that one task may move; 0 for no limit. The setting is the connector's."""
        return float(self.settings.get(RATE) or 0) / max(len(self.tasks), 1)

    def transactional_id(self, task: int) -> str:
        return f"{self.group}-{self.name}-{task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one task does next."""

    job: Job
    task: int
    offsets: dict[str, dict[str, Any]] = field(default_factory=dict)
    producer: tuple[int, int] | None = None  # id and epoch that must be the current ones
    partitions: list[tuple[str, int]] = field(default_factory=list)
    limit_records: int = TURN_RECORDS
    limit_s: float = TURN_S

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        given = json.loads(text)
        given["job"] = Job.parse(given["job"])
        given["partitions"] = [(topic, partition) for topic, partition in given["partitions"]]
        given["producer"] = tuple(given["producer"]) if given["producer"] else None
        return cls(**given)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a turn. `retry` tells a failure that may heal by itself."""

    name: str
    task: int
    records: int = 0
    failed: bool = False
    retry: bool = False
    trace: str = ""
    offsets: dict[str, dict[str, Any]] = field(default_factory=dict)
    positions: list[tuple[str, int, int]] = field(default_factory=list)
    held: list[tuple[str, int]] = field(default_factory=list)  # partitions whose last records come again
    wait_records: int = 0
    wait_ms: int = 0
    producer: tuple[int, int] | None = None
    topics: list[str] = field(default_factory=list)
    skipped: int = 0
    again_ms: int = 0
    more: bool = False  # a source's turn ended at its limit: there may be more, whether or not the source has news
    log: list[str] = field(default_factory=list)

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        given = json.loads(text)
        given["producer"] = tuple(given["producer"]) if given["producer"] else None
        given["held"] = [(topic, partition) for topic, partition in given["held"]]
        return cls(**given)
