"""What is due: the plane's view of connectors, tasks, offsets and of what became of their turns. No Spark in it.

A task goes   waiting -> due -> in a turn -> waiting   and after a failure to `failed`. If that may heal, the task
waits for 1 s, 2 s, ... 60 s and is due again. A paused connector has no due task; a removed one is gone when its turn
is over.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.errors import ClientError
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import committed_offsets
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.config import java_regex, parse_value
from barnabas.pipelines.connect.connector import SourceConnector, offset_key
from barnabas.pipelines.connect.errors import ConnectError
from barnabas.pipelines.connect.plane.orders import Job, Outcome, Turn
from barnabas.pipelines.connect.plane.tolerance import trace_of
from barnabas.pipelines.connect.plane.turns import END, heals, load, next_epoch

BACKOFF_MAX_S = 60.0
LOOK_S = 0.1
TOPICS_S = 2.0  # until topics are looked for again, for new ones and new partitions
Tell = Callable[..., None]


@dataclass(slots=True)
class Task:
    number: int
    due_at: float = 0.0
    running: bool = False
    failed: bool = False
    failures: int = 0
    producer: tuple[int, int] | None = None
    ready: bool = False  # fenced its predecessors, and knows its offsets
    told: str = ""
    held: list[TopicPartition] = field(default_factory=list)  # a sink holds back their last records
    more: bool = False  # the last turn did not come to the end
    wait_records: int = 0
    wait_until: float = 0.0


@dataclass(slots=True)
class Running:
    """A connector in the plane."""

    job: Job
    tasks: list[Task]
    paused: bool = False
    removed: bool = False
    stop_id: int | None = None
    probe: Any = None  # the connector's object that is asked for news
    offsets: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: list[TopicPartition] = field(default_factory=list)
    looked_at: float = 0.0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)

    @property
    def busy(self) -> bool:
        return any(task.running for task in self.tasks)


class Planner:
    """`tell` sends events to the worker."""

    def __init__(self, tell: Tell) -> None:
        self.running: dict[str, Running] = {}
        self._tell = tell
        self._clusters: dict[str, Cluster] = {}

    def start(self, job: Job) -> None:
        found = Running(job, [Task(number) for number in range(len(job.tasks))], paused=job.state == "PAUSED")
        self.running[job.name] = found
        for task in found.tasks:
            self._say(found, task, "PAUSED" if found.paused else "RUNNING")

    def pause(self, name: str, paused: bool) -> None:
        if (found := self.running.get(name)) is not None:
            found.paused = paused
            for task in found.tasks:
                if not task.failed:
                    self._say(found, task, "PAUSED" if paused else "RUNNING")

    def remove(self, name: str, stop_id: int) -> None:
        found = self.running.get(name)
        if found is None:
            self._tell("stopped", name=name, id=stop_id)
            return
        found.removed, found.stop_id = True, stop_id
        self._drop_if_done(found)

    def restart_task(self, name: str, number: int) -> None:
        if (found := self.running.get(name)) is not None and number < len(found.tasks):
            found.tasks[number] = task = Task(number, running=found.tasks[number].running)
            self._say(found, task, "PAUSED" if found.paused else "RUNNING")

    def due(self, names: list[str]) -> list[Turn]:
        now = time.monotonic()
        turns = []
        for found in [self.running[name] for name in names if name in self.running]:
            if found.paused or found.removed:
                continue
            for task in found.tasks:
                if task.running or task.failed or task.due_at > now:
                    continue
                try:
                    turn = self._turn(found, task, now)
                except Exception as error:
                    self.fail(found, task, trace_of(error), heals(error))
                    continue
                if turn is not None:
                    task.running = True
                    turns.append(turn)
        return turns

    def done(self, outcome: Outcome) -> None:
        found = self.running.get(outcome.name)
        if found is None or outcome.task >= len(found.tasks):
            return
        task = found.tasks[outcome.task]
        task.running = False
        if outcome.log or outcome.skipped:
            self._tell("log", name=outcome.name, task=outcome.task, lines=outcome.log, skipped=outcome.skipped)
        if outcome.failed:
            self.fail(found, task, outcome.trace, outcome.retry)
        else:
            task.failures = 0
            task.producer, task.more = outcome.producer, outcome.more
            task.due_at = time.monotonic() + outcome.again_ms / 1000
            found.positions |= {(topic, partition): at for topic, partition, at in outcome.positions}
            task.held, task.wait_records = outcome.held, outcome.wait_records
            task.wait_until = time.monotonic() + outcome.wait_ms / 1000 if outcome.wait_ms else float("inf")
            self._say(found, task, "PAUSED" if found.paused else "RUNNING")
            if outcome.offsets:
                found.offsets |= outcome.offsets
                if found.job.offsets_topic is None:
                    self._tell("offsets", name=outcome.name, offsets=outcome.offsets)
            if new := set(outcome.topics) - found.topics:
                found.topics |= new
                self._tell("topics", name=outcome.name, task=outcome.task, topics=sorted(new))
            if outcome.records:
                self._tell("progress", name=outcome.name, task=outcome.task, records=outcome.records)
        self._drop_if_done(found)

    def lost(self, names: list[str]) -> None:
        """A query ended with turns under way: nobody knows what became of them."""
        for found in [self.running[name] for name in names if name in self.running]:
            for task in found.tasks:
                task.running, task.ready = False, False
            self._drop_if_done(found)

    def fail(self, found: Running, task: Task, trace: str, retry: bool) -> None:
        task.ready = False
        task.failures += 1
        if not retry:
            task.failed = True
            self._say(found, task, "FAILED", trace)
            return
        wait_s = min(2.0 ** (task.failures - 1), BACKOFF_MAX_S)
        task.due_at = time.monotonic() + wait_s
        self._say(found, task, "RUNNING", f"trying again in {wait_s:g} s: {trace}")

    def close(self) -> None:
        for found in self.running.values():
            close_probe(found)
        for cluster in self._clusters.values():
            cluster.close()

    def _say(self, found: Running, task: Task, state: str, trace: str = "") -> None:
        text = json.dumps([state, trace])
        if task.told != text:
            task.told = text
            self._tell("task", name=found.job.name, task=task.number, state=state, trace=trace)

    def _drop_if_done(self, found: Running) -> None:
        if found.removed and not found.busy:
            close_probe(found)
            self.running.pop(found.job.name, None)
            self._tell("stopped", name=found.job.name, id=found.stop_id)

    def _cluster(self, job: Job) -> Cluster:
        key = json.dumps(job.client, sort_keys=True)
        if key not in self._clusters:
            self._clusters[key] = Cluster(ClientSettings.from_properties(job.client))
        return self._clusters[key]

    def _turn(self, found: Running, task: Task, now: float) -> Turn | None:
        return self._source_turn(found, task, now) if found.job.kind == "source" else self._sink_turn(found, task, now)

    def _source_turn(self, found: Running, task: Task, now: float) -> Turn | None:
        job = found.job
        if not task.ready:
            prepared = next_epoch(self._cluster(job), job.transactional_id(task.number), None)
            task.producer = prepared.producer_id, prepared.producer_epoch
            found.offsets |= read_offsets(job) if job.offsets_topic is not None else job.offsets
            close_probe(found)
            task.ready = True
        settings = job.settings | job.tasks[task.number]
        if len(found.tasks) > 1 or found.probe is None:
            close_probe(found)
            found.probe = load(job.place)(settings, name=job.name, task=task.number)
        probe = found.probe
        assert isinstance(probe, SourceConnector)
        if not task.more and not probe.has_news(found.offsets):
            task.due_at = now + LOOK_S
            return None
        return Turn(job=job, task=task.number, offsets=found.offsets, producer=task.producer)

    def _sink_turn(self, found: Running, task: Task, now: float) -> Turn | None:
        cluster = self._cluster(found.job)
        if now - found.looked_at > TOPICS_S:
            found.looked_at = now
            found.partitions = sink_partitions(cluster, found.job)
        mine = [tp for index, tp in enumerate(found.partitions) if index % len(found.tasks) == task.number]
        if not task.ready:
            task.held = []
            known = committed_offsets(cluster, found.job.consumer_group, mine) if mine else {}
            found.positions |= dict.fromkeys(mine, -1) | {tp: each.offset for tp, each in known.items()}
            task.ready = True
        task.due_at = now + LOOK_S
        if not mine:
            return None
        isolation = found.job.consumer.get("isolation.level", "read_committed")
        ends = cluster.list_offsets(dict.fromkeys(mine, END), isolation=isolation)
        behind = [tp for tp in mine if found.positions.get(tp, -1) != ends[tp].offset and ends[tp].offset > 0]
        if task.held:
            new = sum(abs(ends[tp].offset - found.positions.get(tp, 0)) for tp in behind)
            if new < task.wait_records and now < task.wait_until:
                return None
            behind = sorted({*behind, *(tp for tp in task.held if tp in ends)})
        if not behind:
            return None
        return Turn(job=found.job, task=task.number, partitions=behind)


def close_probe(found: Running) -> None:
    """A probe may hold a connection to its source."""
    if found.probe is not None:
        found.probe.close()
        found.probe = None


def sink_partitions(cluster: Cluster, job: Job) -> list[TopicPartition]:
    names = [each.strip() for each in job.settings.get("topics", "").split(",") if each.strip()]
    if pattern := job.settings.get("topics.regex"):
        wanted = re.compile(java_regex(pattern))
        names = [name for name in cluster.metadata(None).topics if wanted.fullmatch(name)]
    found = cluster.metadata(names).topics if names else {}
    return sorted((name, each) for name, topic in found.items() if not topic.error for each in topic.partitions)


def read_offsets(job: Job) -> dict[str, dict[str, Any]]:
    """All that the offsets topic holds of this connector, up to its end, read committed."""
    assert job.offsets_topic is not None
    settings = ClientSettings.from_properties(job.client)
    consumer_settings = ConsumerSettings.from_properties(
        dict(job.client) | {"isolation.level": "read_committed", "enable.auto.commit": "false"}
    )
    found: dict[str, dict[str, Any]] = {}
    with Cluster(settings) as cluster, AssignedConsumer(settings, consumer_settings) as consumer:
        partitions = [
            (job.offsets_topic, each)
            for each in cluster.metadata([job.offsets_topic]).topics[job.offsets_topic].partitions
        ]
        ends = cluster.list_offsets(dict.fromkeys(partitions, END), isolation="read_committed")
        consumer.assign(dict.fromkeys(partitions, -2))
        until = time.monotonic() + settings.default_api_timeout_ms / 1000
        while any(consumer.positions[tp] < each.offset for tp, each in ends.items()):
            if time.monotonic() > until:
                raise ConnectError(f"{job.offsets_topic} was not read to its end in time")
            for record in consumer.poll(200):
                parse_offset(record.key, record.value, job.name, found)
    return found


def parse_offset(key: bytes | None, value: bytes | None, name: str, found: dict[str, dict[str, Any]]) -> None:
    try:
        connector, partition = json.loads(key or b"null")
        if connector != name:
            return
        if value is None:
            found.pop(offset_key(partition), None)
        else:
            found[offset_key(partition)] = json.loads(value)
    except (ValueError, TypeError):
        return


def is_true(settings: dict[str, str], name: str) -> bool:
    return bool(parse_value(name, "BOOLEAN", settings.get(name, "false")))


__all__ = ["ClientError", "Planner", "Running", "Task", "read_offsets", "sink_partitions"]
