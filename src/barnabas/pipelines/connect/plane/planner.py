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
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.errors import ClientError
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import committed_offsets
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.config import java_regex
from barnabas.pipelines.connect.connector import SourceConnector, offset_key
from barnabas.pipelines.connect.errors import ConnectError
from barnabas.pipelines.connect.plane.orders import TURN_S, Job, Outcome, Turn
from barnabas.pipelines.connect.plane.tolerance import trace_of, without_places
from barnabas.pipelines.connect.plane.turns import END, heals, load, next_epoch

BACKOFF_MAX_S = 60.0
LOOK_S = 0.1
LOOK_WAIT_S = 0.2  # for a source that is asked for news; who takes longer is waited for beside the others
LOOKERS_MAX = 64
ASK_MS = "10000"  # for a partition without a leader; all connectors wait meanwhile
TOPICS_S = 2.0  # until topics are looked for again, for new ones and new partitions
Tell = Callable[..., None]


@dataclass(slots=True)
class Task:
    number: int
    due_at: float = 0.0
    began_at: float = 0.0  # the last turn
    running: bool = False
    failed: bool = False
    failures: int = 0
    producer: tuple[int, int] | None = None
    ready: bool = False  # fenced its predecessors, and knows its offsets
    told: str = ""
    partitions: list[TopicPartition] = field(default_factory=list)  # of a sink's turn that is under way
    more: bool = False  # the last turn did not come to the end
    wait_records: int = 0
    wait_until: float = 0.0
    probe: Any = None  # the connector's object that is asked for news
    looking: Future[bool] | None = None
    slow: bool = False  # the source did not answer soon


@dataclass(slots=True)
class Running:
    """A connector in the plane."""

    job: Job
    tasks: list[Task]
    paused: bool = False
    removed: bool = False
    fenced: bool = False
    stop_id: int | None = None
    offsets: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: list[TopicPartition] = field(default_factory=list)
    looked_at: float = 0.0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    held: set[TopicPartition] = field(default_factory=set)  # a sink holds back their last records
    topics: set[str] = field(default_factory=set)

    @property
    def busy(self) -> bool:
        return any(task.running for task in self.tasks)


class Planner:
    """`tell` sends events to the worker."""

    def __init__(self, tell: Tell, look_wait_s: float = LOOK_WAIT_S) -> None:
        self.running: dict[str, Running] = {}
        self.look_wait_s = look_wait_s
        self._tell = tell
        self._hold_id: int | None = None  # no turn begins while it is set
        self._clusters: dict[str, Cluster] = {}
        self._ends: dict[tuple[str, str], tuple[float, dict[TopicPartition, int]]] = {}
        self._lookers = ThreadPoolExecutor(LOOKERS_MAX, "look")

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

    def hold(self, hold_id: int) -> None:
        """No turn begins until `release`; `stopped` is told when none is under way."""
        self._hold_id = hold_id
        self._tell_if_held()

    def release(self) -> None:
        self._hold_id = None

    def _tell_if_held(self) -> None:
        if self._hold_id is not None and not any(found.busy for found in self.running.values()):
            self._tell("stopped", id=self._hold_id)

    def restart_task(self, name: str, number: int) -> None:
        if (found := self.running.get(name)) is not None and number < len(found.tasks):
            close_probe(found.tasks[number])
            found.tasks[number] = task = Task(number, running=found.tasks[number].running)
            self._say(found, task, "PAUSED" if found.paused else "RUNNING")

    def due(self, names: list[str]) -> list[Turn]:
        if self._hold_id is not None:
            return []
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
                    task.running, task.began_at, task.partitions = True, now, turn.partitions
                    rate = found.job.task_rate
                    turns.append(replace(turn, limit_records=max(int(rate * TURN_S), 1)) if rate else turn)
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
            if rate := found.job.task_rate:
                task.due_at = max(task.due_at, task.began_at + outcome.records / rate)
            found.positions |= {(topic, partition): at for topic, partition, at in outcome.positions}
            found.held = (found.held - set(task.partitions)) | set(outcome.held)
            task.wait_records = outcome.wait_records
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
        self._tell_if_held()

    def lost(self, names: list[str]) -> None:
        """A query ended with turns under way: nobody knows what became of them."""
        for found in [self.running[name] for name in names if name in self.running]:
            for task in found.tasks:
                task.running, task.ready = False, False
            self._drop_if_done(found)
        self._tell_if_held()

    def fail(self, found: Running, task: Task, trace: str, retry: bool) -> None:
        task.ready = False
        task.failures += 1
        if not retry:
            task.failed = True
            self._say(found, task, "FAILED", trace)
            return
        wait_s = min(2.0 ** (task.failures - 1), BACKOFF_MAX_S)
        task.due_at = time.monotonic() + wait_s
        self._say(found, task, "RUNNING", f"trying again in {wait_s:g} s: {without_places(trace)}")

    def close(self) -> None:
        self._lookers.shutdown(wait=False, cancel_futures=True)
        for task in [task for found in self.running.values() for task in found.tasks]:
            close_probe(task)
        for cluster in self._clusters.values():
            cluster.close()

    def _say(self, found: Running, task: Task, state: str, trace: str = "") -> None:
        text = json.dumps([state, trace])
        if task.told != text:
            task.told = text
            self._tell("task", name=found.job.name, task=task.number, state=state, trace=trace)

    def _drop_if_done(self, found: Running) -> None:
        if found.removed and not found.busy:
            for task in found.tasks:
                close_probe(task)
            self.running.pop(found.job.name, None)
            self._tell("stopped", name=found.job.name, id=found.stop_id)

    def _cluster(self, job: Job) -> Cluster:
        key = json.dumps(job.client, sort_keys=True)
        if key not in self._clusters:
            soon = {"default.api.timeout.ms": ASK_MS} | job.client
            self._clusters[key] = Cluster(ClientSettings.from_properties(soon))
        return self._clusters[key]

    def _turn(self, found: Running, task: Task, now: float) -> Turn | None:
        return self._source_turn(found, task, now) if found.job.kind == "source" else self._sink_turn(found, task, now)

    def _source_turn(self, found: Running, task: Task, now: float) -> Turn | None:
        job = found.job
        if not task.ready:
            self._fence(found, task)
            found.offsets |= read_offsets(job) if job.offsets_topic is not None else job.offsets
            close_probe(task)
            task.ready = True
        if task.probe is None:
            settings = job.settings | job.tasks[task.number]
            task.probe = load(job.place)(settings, name=job.name, task=task.number)
        if not task.more and not self._has_news(found, task):
            task.due_at = now + LOOK_S
            return None
        return Turn(job=job, task=task.number, offsets=found.offsets, producer=task.producer)

    def _fence(self, found: Running, task: Task) -> None:
        """No former turn of the task can commit any more; at first none of any task that the connector had, for what
        was one task's may be another's now."""
        cluster, job = self._cluster(found.job), found.job
        if found.fenced:
            task.producer = fence(cluster, job, task.number)
            return
        for number in range(max(len(found.tasks), job.former_tasks)):
            producer = fence(cluster, job, number)
            if number < len(found.tasks):
                found.tasks[number].producer = producer
        found.fenced = True

    def _has_news(self, found: Running, task: Task) -> bool:
        """False too while the source has not answered: a database that is away keeps no other connector waiting."""
        if task.looking is None:
            assert isinstance(task.probe, SourceConnector)
            task.looking = self._lookers.submit(task.probe.has_news, dict(found.offsets))
        if not wait([task.looking], 0 if task.slow else self.look_wait_s).done:
            task.slow = True
            return False
        looked, task.looking, task.slow = task.looking, None, False
        return looked.result()

    def _sink_turn(self, found: Running, task: Task, now: float) -> Turn | None:
        cluster = self._cluster(found.job)
        if now - found.looked_at > TOPICS_S:
            found.looked_at = now
            found.partitions = sink_partitions(cluster, found.job)
        taken = {tp for other in found.tasks if other.running for tp in other.partitions}
        mine = [
            tp
            for index, tp in enumerate(found.partitions)
            if index % len(found.tasks) == task.number and tp not in taken  # new topics move partitions to other tasks
        ]
        if not task.ready:
            found.held -= set(mine)
            if load(found.job.place).fenced:
                self._fence(found, task)
            known = committed_offsets(cluster, found.job.consumer_group, mine) if mine else {}
            found.positions |= dict.fromkeys(mine, -1) | {tp: each.offset for tp, each in known.items()}
            task.ready = True
        task.due_at = now + LOOK_S
        if not mine:
            return None
        ends = self._ends_of(found.job, mine, now)
        behind = [tp for tp in mine if found.positions.get(tp, -1) != ends[tp] and ends[tp] > 0]
        if held := found.held.intersection(mine):
            new = sum(abs(ends[tp] - found.positions.get(tp, 0)) for tp in behind)
            if new < task.wait_records and now < task.wait_until:
                return None
            behind = sorted({*behind, *held})
        if not behind:
            return None
        return Turn(job=found.job, task=task.number, partitions=behind, producer=task.producer)

    def _ends_of(self, job: Job, mine: list[TopicPartition], now: float) -> dict[TopicPartition, int]:
        """Where the partitions end. One request of a round asks for those of all sinks: many idle ones cost little."""
        isolation = isolation_of(job)
        key = json.dumps(job.client, sort_keys=True), isolation
        asked_at, ends = self._ends.get(key, (0.0, {}))
        if now == asked_at and all(tp in ends for tp in mine):
            return ends
        cluster = self._cluster(job)
        wanted = set(mine)
        for other in self.running.values():
            same = other.job.kind == "sink" and other.job.client == job.client and isolation_of(other.job) == isolation
            if same and not other.paused and not other.removed:
                wanted.update(other.partitions)
        try:
            found = cluster.list_offsets(dict.fromkeys(sorted(wanted), END), isolation=isolation)
        except ClientError:  # of another's partition, perhaps
            found = cluster.list_offsets(dict.fromkeys(mine, END), isolation=isolation)
        ends = {tp: each.offset for tp, each in found.items()}
        self._ends[key] = now, ends
        return ends


def isolation_of(job: Job) -> str:
    return job.consumer.get("isolation.level", "read_committed")


def fence(cluster: Cluster, job: Job, task: int) -> tuple[int, int]:
    """Id and epoch of the task's next turns: no former turn of it can commit any more."""
    prepared = next_epoch(cluster, job.transactional_id(task), None)
    return prepared.producer_id, prepared.producer_epoch


def close_probe(task: Task) -> None:
    """A probe may hold a connection to its source."""
    if task.probe is not None:
        task.probe.close()
        task.probe = task.looking = None


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
