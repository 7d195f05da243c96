"""Connectors are created, changed, paused, stopped and deleted by writing records; what is read back is run.

Every change is a record of the configuration topic. When it is read, the connector is reconciled: the job that the
plane should run is computed, and started, paused or stopped if it is another one than before. Statuses of tasks come
from the plane and go to the status topic.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Mapping
from concurrent import futures
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from barnabas.client.admin.groups import delete_group, delete_offsets
from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable, ClientError, TimedOut
from barnabas.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from barnabas.pipelines.connect.connector import offset_key
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, RetriableError
from barnabas.pipelines.connect.plane.conversion import tasks_max
from barnabas.pipelines.connect.plane.link import Plane
from barnabas.pipelines.connect.plane.orders import Job
from barnabas.pipelines.connect.plugins import VERSION, Plugin, need
from barnabas.pipelines.connect.worker.membership import Assignment, Membership
from barnabas.pipelines.connect.worker.providers import Providers
from barnabas.pipelines.connect.worker.settings import WorkerSettings, client_properties
from barnabas.pipelines.connect.worker.state import FAILED, PAUSED, RUNNING, STOPPED, State, decode, encode
from barnabas.pipelines.connect.worker.topics import MemoryTopic, StateTopic
from barnabas.pipelines.connect.worker.validation import validate

log = logging.getLogger(__name__)
SEEN_S = 10.0
LOG_LINES = 500
AGAIN_MAX_S = 60.0
STOP_S = 1.0  # for turns that did not end when the group changed
HEALING = (RetriableError, BrokerUnreachable, TimedOut)
PASSING = {"state": "", "former_tasks": 0}  # of a job: what another value of does not make another job
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
    "connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)


class RestError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Herder:
    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.state = State()
        self.offsets: dict[str, dict[str, dict[str, Any]]] = {}
        self.cluster_id = ""
        self.records: dict[tuple[str, int], int] = {}
        self.logs: dict[str, deque[str]] = {}
        self._providers = Providers(settings.properties)
        self._plane = Plane(self._heard)
        self._jobs: dict[str, Job] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}  # of connectors that may run later: how often they could not
        self._live = False
        self.assignment: Assignment | None = None
        self._membership: Membership | None = None
        self._config: StateTopic | MemoryTopic
        self._status: StateTopic | MemoryTopic
        self._offset_topic: StateTopic | None = None
        self._make_topics()

    def _make_topics(self) -> None:
        given, kafka = self.settings, self.settings.kafka
        if not given.distributed:
            self._config, self._status = MemoryTopic(self._on_config), MemoryTopic(self._on_status)
            return

        def number(name: str, default: int) -> int:
            return int(given.properties.get(name, default))

        replicas = {kind: number(f"{kind}.storage.replication.factor", 3) for kind in ("config", "offset", "status")}
        self._config = StateTopic(kafka, given.config_topic, 1, replicas["config"], self._on_config)
        parts = number("status.storage.partitions", 5)
        self._status = StateTopic(kafka, given.status_topic, parts, replicas["status"], self._on_status)
        parts = number("offset.storage.partitions", 25)
        self._offset_topic = StateTopic(kafka, given.offset_topic, parts, replicas["offset"], self._on_offset)

    @property
    def _topics(self) -> list[StateTopic | MemoryTopic]:
        return [self._config, self._status, *([self._offset_topic] if self._offset_topic else [])]

    def load(self) -> None:
        with Cluster(self.settings.kafka) as cluster:
            self.cluster_id = cluster.metadata([]).cluster_id or ""
        for topic in self._topics:
            topic.load()
        if not self.settings.distributed:
            self._load_file()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for topic in self._topics:
            topic.follow(loop)
        self._live = True
        if not self.settings.distributed:
            own = self.settings.worker_id
            self._assigned(Assignment(own, own, (own,), 1))
            return

        def assigned(found: Assignment | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._assigned, found)

        hold_s = self.settings.session_timeout_ms / 1000 / 3  # no heartbeat is sent meanwhile

        def rebalance() -> None:
            with contextlib.suppress(RuntimeError, TimeoutError, futures.CancelledError):
                asyncio.run_coroutine_threadsafe(self._plane.hold(), loop).result(hold_s)

        self._membership = Membership(self.settings, assigned, rebalance)
        self._membership.start()

    def _assigned(self, found: Assignment | None) -> None:
        """Connectors that are another's now are stopped; those that are ours are started."""
        self.assignment = found
        if found is not None:
            log.info("group %s: %s leads %s", self.settings.group_id, found.leader, ", ".join(found.workers))
        lost = {name for name in self._jobs if found is None or not found.owns(name)}
        stops = [self._reconcile_soon(name) for name in lost]
        task = asyncio.get_running_loop().create_task(self._go_on(stops, {*self.state.connectors, *self._jobs} - lost))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _go_on(self, stops: list[asyncio.Task[None]], kept: set[str]) -> None:
        """The plane has heard of what is another's now before turns begin again."""
        if stops:
            await asyncio.wait(stops, timeout=STOP_S)
        self._plane.release()
        for name in kept:
            self._reconcile_soon(name)

    @property
    def _generation(self) -> int:
        return self.assignment.generation if self.assignment is not None else 0

    async def until_assigned(self) -> None:
        """A worker that has just started waits for its group."""
        await self._until(lambda: self.assignment is not None)

    @property
    def leader(self) -> str:
        """The address of the worker that writes configurations."""
        if self.assignment is None:
            raise RestError(
                409, "Cannot complete request momentarily due to no known leader or stale configuration; try again."
            )
        return self.assignment.leader

    async def close(self) -> None:
        self._live = False
        if self._membership is not None:
            await asyncio.to_thread(self._membership.close)
        for task in self._work:
            task.cancel()
        await self._plane.close()
        await asyncio.to_thread(lambda: [topic.close() for topic in self._topics])

    # What users ask for.

    def plugin_of(self, settings: Mapping[str, str]) -> Plugin:
        name = settings.get("connector.class")
        if not name:
            shown = ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
            raise RestError(400, f"Connector config {{{shown}}} contains no connector type")
        try:
            return need(name, "source", "sink", setting="connector.class")
        except ConfigError as error:
            known = str(error).partition(": ")[2]
            raise RestError(
                400, f"Failed to find any class that implements Connector and which name matches {name}. {known}"
            ) from None

    def check(self, settings: Mapping[str, str]) -> None:
        plugin = self.plugin_of(settings)
        resolved = self._resolved(settings)
        found = validate(plugin, resolved, self.settings.defaults(), self.settings)
        errors = [text for each in found["configs"] for text in each["value"]["errors"]]
        if errors:
            listed = "\n".join(errors)
            raise RestError(
                400,
                f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{listed}\nYou "
                "can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            )

    def _resolved(self, settings: Mapping[str, str]) -> dict[str, str]:
        try:
            return self._providers.resolve(settings)
        except ConfigError as error:
            raise RestError(400, str(error)) from None

    def need(self, name: str, missing: str = "Connector {} not found") -> dict[str, str]:
        found = self.state.connectors.get(name)
        if found is None:
            raise RestError(404, missing.format(name))
        return found

    async def put(self, name: str, settings: Mapping[str, str], initial: str | None = None) -> None:
        settings = dict(settings) | {"name": name}
        await asyncio.to_thread(self.check, settings)
        if initial is not None and initial.upper() != RUNNING:
            await self._set_target(name, initial.upper())
        await self._append_config(f"connector-{name}", {"properties": settings})
        await self._until(lambda: self.state.connectors.get(name) == settings)

    async def delete(self, name: str) -> None:
        self.need(name)
        count = self.state.counts.get(name, 0)
        await self._append_config(f"connector-{name}", None)
        await self._append_config(f"target-state-{name}", None)
        await self._until(lambda: name not in self.state.connectors)
        async with self._lock(name):
            await self._stop_job(name)
        await self._status.append(f"status-connector-{name}", None)
        for number in range(count):
            await self._status.append(f"status-task-{name}-{number}", None)
        await self._until(lambda: name not in self.state.statuses)

    async def set_target(self, name: str, target: str) -> None:
        self.need(name, "Unknown connector {}")
        await self._set_target(name, target)
        await self._until(lambda: self.state.target(name) == target)
        if target == STOPPED:
            await self._until(lambda: self.state.statuses.get(name, {}).get("state") == STOPPED)

    async def _set_target(self, name: str, target: str) -> None:
        state = PAUSED if target == STOPPED else target
        await self._append_config(f"target-state-{name}", {"state": state, "state.v2": target})

    async def restart(self, name: str, *, tasks: bool, only_failed: bool) -> None:
        self.need(name, "Unknown connector: {}")
        status = self.state.statuses.get(name, {})
        if not only_failed or status.get("state") == FAILED:
            await self._tell_connector(name, RUNNING)
            if status.get("state") == FAILED:
                self._reconcile_soon(name)
        for number in range(self.state.counts.get(name, 0)) if tasks else ():
            state = self.state.task_statuses.get((name, number), {}).get("state")
            if not only_failed or state == FAILED:
                self._plane.restart(name, number)

    def restart_task(self, name: str, number: int) -> None:
        self.need(name)
        if number >= self.state.counts.get(name, 0):
            raise RestError(404, f"Unknown task: {name}-{number}")
        self._plane.restart(name, number)

    # Offsets.

    def is_sink(self, name: str) -> bool:
        return self.plugin_of(self.need(name)).type == "sink"

    def _group(self, name: str) -> str:
        return self.need(name).get("consumer.override.group.id") or f"connect-{name}"

    async def read_offsets(self, name: str) -> list[dict[str, Any]]:
        if not self.is_sink(name):
            found = self.offsets.get(name, {})
            return [{"partition": json.loads(key), "offset": value} for key, value in found.items()]
        group = self._group(name)

        def ask() -> Any:
            with Cluster(self.settings.kafka) as cluster:
                return committed_offsets(cluster, group)

        committed = await asyncio.to_thread(ask)
        return [
            {"partition": {"kafka_topic": topic, "kafka_partition": part}, "offset": {"kafka_offset": each.offset}}
            for (topic, part), each in sorted(committed.items())
        ]

    async def write_offsets(
        self, name: str, changes: list[tuple[dict[str, Any], dict[str, Any] | None]] | None
    ) -> None:
        """None resets all. The connector is stopped."""
        settings = self.need(name)
        if self.state.target(name) != STOPPED or self.state.statuses.get(name, {}).get("state") != STOPPED:
            raise RestError(400, NOT_STOPPED.format(name))
        if self.is_sink(name):
            await asyncio.to_thread(self._write_sink_offsets, name, changes)
            plugin = self.plugin_of(settings)
            resolved = self._resolved(settings)
            await asyncio.to_thread(lambda: plugin.load()(resolved, name=name).forget())
            return
        if changes is None:
            changes = [(json.loads(key), None) for key in self.offsets.get(name, {})]
        for partition, offset in changes:
            key = json.dumps([name, partition], separators=(",", ":"))
            if self._offset_topic is not None:
                await self._offset_topic.append(key, encode(offset))
            else:
                self._on_offset(key, encode(offset))
                self._save_file()
        await self._until(
            lambda: all(
                self.offsets.get(name, {}).get(offset_key(partition)) == offset for partition, offset in changes
            )
        )

    def _write_sink_offsets(
        self, name: str, changes: list[tuple[dict[str, Any], dict[str, Any] | None]] | None
    ) -> None:
        group = self._group(name)
        with Cluster(self.settings.kafka) as cluster:
            if changes is None:
                delete_group(cluster, group)
                return
            try:
                parsed = {
                    (str(partition["kafka_topic"]), int(partition["kafka_partition"])): None
                    if offset is None
                    else int(offset["kafka_offset"])
                    for partition, offset in changes
                }
            except (KeyError, TypeError, ValueError):
                raise RestError(
                    400,
                    "Offsets of a sink have the partition {kafka_topic, kafka_partition} and the offset {kafka_offset}",
                ) from None
            commits = {tp: CommittedOffset(at) for tp, at in parsed.items() if at is not None}
            if commits:
                commit_offsets(cluster, group, commits)
            if gone := [tp for tp, at in parsed.items() if at is None]:
                delete_offsets(cluster, group, gone)

    # What is read back.

    def _on_config(self, key: str, value: bytes | None) -> None:
        name = self.state.replay_config(key, decode(value))
        if name is not None and self._live:
            self._reconcile_soon(name)

    def _on_status(self, key: str, value: bytes | None) -> None:
        self.state.replay_status(key, decode(value))

    def _on_offset(self, key: str, value: bytes | None) -> None:
        try:
            name, partition = json.loads(key)
        except (ValueError, TypeError):
            return
        table = self.offsets.setdefault(name, {})
        found = decode(value)
        if found is None:
            table.pop(offset_key(partition), None)
        else:
            table[offset_key(partition)] = found

    async def _append_config(self, key: str, value: Any) -> None:
        try:
            await self._config.append(key, encode(value))
        except ClientError as error:
            raise RestError(500, f"The configuration could not be written: {error}") from None

    async def _until(self, condition: Any) -> None:
        until = time.monotonic() + SEEN_S
        while not condition() and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    # What is run.

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _reconcile_soon(self, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._reconcile(name))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def _reconcile_again(self, name: str) -> None:
        if self._live and name in self._failures:
            self._reconcile_soon(name)

    async def _reconcile(self, name: str) -> None:
        async with self._lock(name):
            try:
                await self._reconcile_locked(name)
                self._failures.pop(name, None)
            except HEALING as error:
                wait_s = min(2.0 ** self._failures.get(name, 0), AGAIN_MAX_S)
                self._failures[name] = self._failures.get(name, 0) + 1
                log.warning("connector %s cannot run, trying again in %g s: %s", name, wait_s, error)
                await self._stop_job(name)
                await self._tell_connector(name, RUNNING, f"trying again in {wait_s:g} s: {error}")
                asyncio.get_running_loop().call_later(wait_s, self._reconcile_again, name)
            except (ConnectError, RestError, ClientError, OSError) as error:
                log.error("connector %s cannot run: %s", name, error)
                await self._stop_job(name)
                await self._tell_connector(name, FAILED, f"{type(error).__name__}: {error}")
            except Exception as error:
                log.exception("connector %s cannot run", name)
                await self._stop_job(name)
                await self._tell_connector(name, FAILED, f"{type(error).__name__}: {error}")

    async def _reconcile_locked(self, name: str) -> None:
        settings = self.state.connectors.get(name)
        if settings is None or self.assignment is None or not self.assignment.owns(name):
            await self._stop_job(name)
            return
        target = self.state.target(name)
        if target == STOPPED:
            await self._stop_job(name)
            if self.state.counts.get(name):
                await self._append_config(f"commit-{name}", {"tasks": 0})
            await self._tell_connector(name, STOPPED)
            return
        plugin = self.plugin_of(settings)
        resolved = self.settings.with_defaults(self._resolved(settings))
        configs = await asyncio.to_thread(plugin.load().task_settings, dict(settings), tasks_max(settings))
        former_tasks = self.state.counts.get(name, 0)
        if configs != self.state.task_configs(name):
            for number, config in enumerate(configs):
                await self._append_config(f"task-{name}-{number}", {"properties": config})
            await self._append_config(f"commit-{name}", {"tasks": len(configs)})
            await self._until(lambda: self.state.task_configs(name) == configs)
        job = self._job(name, plugin, resolved, [self._resolved(each) for each in configs], target, former_tasks)
        running = self._jobs.get(name)
        if running is not None and running.encode() | PASSING == job.encode() | PASSING:
            if running.state != target:
                self._plane.pause(name, target == PAUSED)
        else:
            await self._stop_job(name)
            self._plane.start(job)
        self._jobs[name] = job
        await self._tell_connector(name, target)

    async def _stop_job(self, name: str) -> None:
        if self._jobs.pop(name, None) is not None:
            await self._plane.stop(name)

    def _job(
        self,
        name: str,
        plugin: Plugin,
        settings: dict[str, str],
        tasks: list[dict[str, str]],
        target: str,
        former_tasks: int,
    ) -> Job:
        return Job(
            name=name,
            kind=plugin.type,
            place=plugin.place,
            settings=settings,
            tasks=tasks,
            client=client_properties(self.settings.properties),
            producer=self.settings.client("producer", settings),
            consumer=self.settings.client("consumer", settings),
            offsets_topic=self.settings.offset_topic if self.settings.distributed else None,
            offsets={} if self.settings.distributed else dict(self.offsets.get(name, {})),
            group=self.settings.group_id,
            state=target,
            former_tasks=former_tasks,
        )

    async def _tell_connector(self, name: str, state: str, trace: str = "") -> None:
        found: dict[str, Any] = {"state": state, "worker_id": self.settings.worker_id, "generation": self._generation}
        found |= {"trace": trace or None, "version": VERSION}
        await self._status.append(f"status-connector-{name}", encode(found))

    def _heard(self, event: dict[str, Any]) -> None:
        name, task = event.get("name", ""), event.get("task", 0)
        if name not in self.state.connectors:
            return
        if event["event"] == "task":
            if event["state"] == FAILED and self._is_anothers(name, task):
                return  # the owner's turns have fenced this one
            found = {"state": event["state"], "trace": event["trace"] or None, "worker_id": self.settings.worker_id}
            found |= {"generation": self._generation, "version": VERSION}
            self._status.append(f"status-task-{name}-{task}", encode(found))
            self._note(name, task, f"{event['state']} {event['trace']}".rstrip())
            if event["state"] == FAILED:
                log.error("task %s-%s failed: %s", name, task, event["trace"])
        elif event["event"] == "topics":
            now = int(time.time() * 1000)
            for topic in event["topics"]:
                value = {"topic": {"name": topic, "connector": name, "task": task, "discoverTimestamp": now}}
                self._status.append(f"status-topic-{topic}:connector-{name}", encode(value))
        elif event["event"] == "offsets":
            self.offsets.setdefault(name, {}).update(event["offsets"])
            self._save_file()
        elif event["event"] == "progress":
            self.records[name, task] = self.records.get((name, task), 0) + event["records"]
        elif event["event"] == "log":
            for line in event["lines"]:
                log.error("%s", line)
                self._note(name, task, line)
            if event["skipped"]:
                self._note(name, task, f"{event['skipped']} records skipped")

    def _is_anothers(self, name: str, task: int) -> bool:
        known = self.state.task_statuses.get((name, task), {})
        owner, generation = known.get("worker_id"), known.get("generation") or 0
        return name not in self._jobs or (owner != self.settings.worker_id and generation > self._generation)

    def _note(self, name: str, task: int, text: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.logs.setdefault(name, deque(maxlen=LOG_LINES)).append(f"{at} task {task}: {text}")

    async def forget_topics(self, name: str) -> None:
        for topic in list(self.state.topics.get(name, {})):
            await self._status.append(f"status-topic-{topic}:connector-{name}", None)

    # Offsets of a standalone worker.

    def _file(self) -> Path | None:
        given = self.settings.properties.get("offset.storage.file.filename")
        return Path(given) if given else None

    def _load_file(self) -> None:
        path = self._file()
        if path is not None and path.exists() and path.stat().st_size:
            try:
                self.offsets = json.loads(path.read_text())
            except ValueError:
                raise ConfigError(
                    "holds no offsets of this program: name another file, or delete it",
                    "offset.storage.file.filename",
                    path,
                ) from None

    def _save_file(self) -> None:
        path = self._file()
        if path is not None and not self.settings.distributed:
            beside = path.with_suffix(path.suffix + ".new")
            beside.write_text(json.dumps(self.offsets))
            beside.replace(path)
