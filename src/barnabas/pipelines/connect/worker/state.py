"""What the worker knows, replayed from records of the configuration and status topics, as Connect writes them.

connector-NAME        {"properties": {...}}, null: deleted
task-NAME-N           {"properties": {...}}
commit-NAME           {"tasks": n}: the tasks' configurations are complete
target-state-NAME     {"state": "PAUSED", "state.v2": "STOPPED"}
restart-connector-NAME   {"include-tasks": ..., "only-failed": ...}
status-connector-NAME, status-task-NAME-N    {"state", "trace", "worker_id", "generation", "version"}
status-topic-TOPIC:connector-NAME            {"topic": {...}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED = "RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED"


@dataclass(slots=True)
class State:
    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, dict[int, dict[str, str]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    task_statuses: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    topics: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def target(self, name: str) -> str:
        return self.targets.get(name, RUNNING)

    def replay_config(self, key: str, value: dict[str, Any] | None) -> str | None:
        """The name of the connector that is concerned."""
        kind, _, rest = key.partition("-")
        if kind == "connector":
            if value is None:
                for table in (self.connectors, self.targets, self.tasks, self.counts):
                    table.pop(rest, None)
            else:
                self.connectors[rest] = value["properties"]
            return rest
        if kind == "task":
            name, _, number = rest.rpartition("-")
            if value is not None and number.isdigit():
                self.tasks.setdefault(name, {})[int(number)] = value["properties"]
            return name
        if kind == "commit":
            self.counts[rest] = int((value or {}).get("tasks", 0))
            return rest
        if key.startswith("target-state-"):
            name = key.removeprefix("target-state-")
            if value is not None:
                self.targets[name] = value.get("state.v2") or value.get("state") or RUNNING
            else:
                self.targets.pop(name, None)
            return name
        return None

    def replay_status(self, key: str, value: dict[str, Any] | None) -> None:
        if key.startswith("status-connector-"):
            put(self.statuses, key.removeprefix("status-connector-"), value)
        elif key.startswith("status-task-"):
            name, _, number = key.removeprefix("status-task-").rpartition("-")
            if number.isdigit():
                put(self.task_statuses, (name, int(number)), value)
        elif key.startswith("status-topic-"):
            topic, _, name = key.removeprefix("status-topic-").partition(":connector-")
            put(self.topics.setdefault(name, {}), topic, value)

    def task_configs(self, name: str) -> list[dict[str, str]]:
        found = self.tasks.get(name, {})
        return [found[number] for number in range(self.counts.get(name, 0)) if number in found]


def put(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def encode(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if data is None else json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
