"""The nodes of `barnabas up --brokers N`: each a process of its own, on this machine, under one directory.

`cluster.json` in the directory says which cluster lies there and on which ports its controllers listen, so that the
next start is the same cluster. Nodes end with the process that started them, whatever ends it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barnabas.cli.errors import UsageError
from barnabas.wire.uuids import Uuid

CLUSTER_FILE = "cluster.json"
FIRST_BROKER_ID = 101
VOTERS_MAX = 3
STOP_WITHIN_S = 30.0
PORT_MAX = 65535
TRIES_MAX = 100
EVERY_INTERFACE = ("0.0.0.0", "::", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    directory: Path
    brokers: int
    controllers: int
    racks: Sequence[str] = ()
    host: str = "localhost"
    port: int = 9092
    every_interface: bool = False  # brokers listen on all of them and advertise the machine's name
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def broker_ids(self) -> list[int]:
        first = FIRST_BROKER_ID if self.controllers else 1
        return list(range(first, first + self.brokers))

    @property
    def controller_ids(self) -> list[int]:
        """Without controllers of their own the first three brokers are controllers too."""
        return list(range(1, self.controllers + 1)) if self.controllers else self.broker_ids[:VOTERS_MAX]

    @property
    def node_ids(self) -> list[int]:
        return list(dict.fromkeys([*self.controller_ids, *self.broker_ids]))

    def broker_port(self, broker_id: int) -> int:
        return self.port + self.broker_ids.index(broker_id)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.host}:{self.broker_port(each)}" for each in self.broker_ids)

    def properties(self, node_id: int, known: KnownCluster) -> dict[str, str]:
        is_broker, is_controller = node_id in self.broker_ids, node_id in self.controller_ids
        listening = "" if self.every_interface else self.host
        listeners = [f"PLAINTEXT://{listening}:{self.broker_port(node_id)}"] if is_broker else []
        if is_controller:
            listeners.append(f"CONTROLLER://{self.host}:{known.controller_ports[node_id]}")
        replicas = str(min(3, self.brokers))
        properties = {
            "node.id": str(node_id),
            "process.roles": ",".join(["broker"] * is_broker + ["controller"] * is_controller),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{each}@{self.host}:{known.controller_ports[each]}" for each in self.controller_ids
            ),
            "log.dirs": str(self.directory / f"node-{node_id}"),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, self.brokers)),
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": str(min(2, self.brokers)),
            "group.initial.rebalance.delay.ms": "0",
        }
        if is_broker and self.racks:
            properties["broker.rack"] = self.racks[self.broker_ids.index(node_id) % len(self.racks)]
        return properties | dict(self.overrides)


@dataclass(slots=True)
class KnownCluster:
    """What `cluster.json` holds."""

    cluster_id: str
    controller_ports: dict[int, int] = field(default_factory=dict)

    @classmethod
    def find(cls, plan: ClusterPlan) -> KnownCluster:
        """That of the directory, or a new one; a UsageError if another cluster than the planned one lies there."""
        path = plan.directory / CLUSTER_FILE
        if not path.exists():
            if plan.directory.is_dir() and any(plan.directory.iterdir()):
                raise UsageError(f"{plan.directory} is not empty, and no cluster of several nodes lies in it.")
            known = cls(str(Uuid.random()), {each: _free_port(plan.host) for each in plan.controller_ids})
            try:
                plan.directory.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps({"cluster.id": known.cluster_id, "controllers": known.controller_ports}))
            except OSError as error:
                raise UsageError(f"The directory {plan.directory} cannot be used: {error.strerror}") from error
            return known
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            known = cls(found["cluster.id"], {int(each): int(port) for each, port in found["controllers"].items()})
        except (ValueError, KeyError, AttributeError) as error:
            raise UsageError(f"{path} cannot be read: {error!r}") from error
        if sorted(known.controller_ports) != plan.controller_ids:
            raise UsageError(
                f"The cluster in {plan.directory} has the controllers {sorted(known.controller_ports)}, and "
                f"{plan.controller_ids} are asked for."
            )
        return known


class LocalCluster:
    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.known = KnownCluster.find(plan)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """All at the same time."""
        for node_id in self.plan.node_ids:
            self._start(node_id)

    def _start(self, node_id: int) -> None:
        properties = self.plan.properties(node_id, self.known)
        overrides = [part for item in properties.items() for part in ("--override", "=".join(item))]
        with open(self.log_path(node_id), "ab") as log:
            self.processes[node_id] = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server", "start", *overrides, "--stop-with-parent"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "CLUSTER_ID": self.known.cluster_id},
                start_new_session=True,  # a Ctrl-C is ours: we stop them in order
            )

    def log_path(self, node_id: int) -> Path:
        return self.plan.directory / f"node-{node_id}.log"

    def is_running(self, node_id: int) -> bool:
        return self.processes[node_id].poll() is None

    def last_words(self, node_id: int) -> str:
        """Why a node is down."""
        code, path = self.processes[node_id].poll(), self.log_path(node_id)
        if code is not None and code < 0:
            return f"ended by {signal.Signals(-code).name}; its log is {path.name}"
        lines = path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {code}"

    def stop(self) -> None:
        """Controllers of their own stop when no broker is left: a controlled shutdown needs them."""
        brokers = {each: self.processes[each] for each in self.plan.broker_ids if each in self.processes}
        controllers = {each: process for each, process in self.processes.items() if each not in brokers}
        for processes in (brokers, controllers):
            deadline = time.monotonic() + STOP_WITHIN_S
            for process in processes.values():
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            for process in processes.values():
                _end(process, deadline)


def _end(process: subprocess.Popen[bytes], deadline: float) -> None:
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdin is not None
    process.stdin.close()


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def free_ports(host: str, count: int, *, first: int) -> int:
    """The first of so many free ports in a row: the one that is asked for, or any for 0."""
    listening = "" if host in EVERY_INTERFACE else host
    if refusal := _why_taken(listening, first):
        raise UsageError(refusal)
    for _ in range(TRIES_MAX):
        begin = first or _free_port(listening)
        refusal = next(filter(None, (_why_taken(listening, begin + each) for each in range(count))), None)
        if refusal is None:
            return begin
        if first:
            raise UsageError(refusal)
    raise UsageError(f"There are no {count} free ports in a row.")


def _why_taken(host: str, port: int) -> str | None:
    if port > PORT_MAX:
        return f"A broker would need the port {port}: {PORT_MAX} is the last there is."
    try:
        with socket.create_server((host, port)):
            return None
    except socket.gaierror as error:
        why = error.strerror
    except OSError as error:
        why = os.strerror(error.errno or 0)
    return f"The listener PLAINTEXT://{host}:{port} cannot be opened: {why}"
