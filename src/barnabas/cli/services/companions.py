"""Services that run beside a node, each a process of its own: started once the node is up, stopped before it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

STOP_WITHIN_S = 10
EVERY_ADDRESS = ("0.0.0.0", "::", "")
LEVEL_VARIABLE = "BARNABAS_LOG_LEVEL"
CONNECT_QUICKSTART = {  # as in Kafka's connect-distributed.properties
    "group.id": "connect-cluster",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "rest.advertised.host.name": "localhost",
}


@dataclass(frozen=True, slots=True)
class Companion:
    name: str
    service: str  # `barnabas <service> start` starts it
    url: str
    overrides: Mapping[str, str]

    @property
    def arguments(self) -> list[str]:
        words = [word for key, value in self.overrides.items() for word in ("--override", f"{key}={value}")]
        return [self.service, "start", *words, "--stop-with-parent"]

    @property
    def log_name(self) -> str:
        return f"{self.service}.log"


def companions_of(
    bootstrap_servers: str, state_directory: Path, environment: Mapping[str, str] = os.environ
) -> list[Companion]:
    """All services that there are. The variables of their Docker images win over what is told here but the address."""
    registry, connect = _url("SCHEMA_REGISTRY", 8081, environment), _url("CONNECT", 8083, environment)

    def companion(name: str, service: str, url: str, variables: str, told: Mapping[str, str]) -> Companion:
        servers = {key: value for key, value in told.items() if value == bootstrap_servers}
        suggested = {key: value for key, value in told.items() if _variable(variables, key) not in environment}
        return Companion(name, service, url, suggested | servers)

    kafka = {"bootstrap.servers": bootstrap_servers}
    registry_told = {"kafkastore.bootstrap.servers": bootstrap_servers, "host.name": "localhost"}
    rest_told = kafka | {"schema.registry.url": registry}
    connect_told = kafka | CONNECT_QUICKSTART
    sql_told = kafka | {"ksql.schema.registry.url": registry, "ksql.connect.url": connect}
    sql_told |= {"ksql.state.dir": str(state_directory / "sql")}
    return [
        companion("schema registry", "registry", registry, "SCHEMA_REGISTRY", registry_told),
        companion("REST proxy", "rest", _url("KAFKA_REST", 8082, environment), "KAFKA_REST", rest_told),
        companion("Connect", "connect", connect, "CONNECT", connect_told),
        companion("SQL", "sql", _url("KSQL", 8088, environment), "KSQL", sql_told),
    ]


def _variable(prefix: str, key: str) -> str:
    return f"{prefix}_{key.upper().replace('.', '_')}"


def _url(variables: str, default_port: int, environment: Mapping[str, str]) -> str:
    from barnabas.services.environment import parse_listener

    listeners = environment.get(f"{variables}_LISTENERS", "")
    ports = (environment.get(f"{variables}_{name}", "") for name in ("REST_PORT", "PORT"))
    host, port = parse_listener(
        {"listeners": listeners}, next((int(each) for each in ports if each.isdecimal()), default_port)
    )
    scheme = "https" if listeners.strip().lower().startswith("https:") else "http"
    return f"{scheme}://{'localhost' if host in EVERY_ADDRESS else host}:{port}"


class Companions:
    def __init__(self, companions: Sequence[Companion], logs: Path | None = None) -> None:
        """They say on our output that they are up, and what somebody should look at; or in files, a service each."""
        environment = {LEVEL_VARIABLE: "WARNING" if logs is None else "INFO"} | os.environ
        self._processes: list[subprocess.Popen[bytes]] = []
        for companion in companions:
            with ExitStack() as files:
                said = files.enter_context(open(logs / companion.log_name, "ab")) if logs is not None else None
                command = [sys.executable, "-m", "barnabas", *companion.arguments]
                # In a session of its own: a Ctrl-C in the terminal is the node's, which stops them before itself.
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment, start_new_session=True
                )
            self._processes.append(process)

    def stop(self) -> None:
        """Blocking."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
