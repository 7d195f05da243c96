"""Services that run beside a node, each a process of its own: started once the node is up, stopped before it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

STOP_WITHIN_S = 10
EVERY_ADDRESS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class Companion:
    name: str
    arguments: tuple[str, ...]  # of the program barnabas


def companions_of(bootstrap_servers: str, environment: Mapping[str, str] = os.environ) -> list[Companion]:
    """All services that there are. The proxy is told where the registry listens, if nobody else has told it."""
    kafka = f"kafkastore.bootstrap.servers={bootstrap_servers}"
    registry: tuple[str, ...] = (
        "registry",
        "start",
        "--override",
        kafka,
        "--override",
        "host.name=localhost",
        "--stop-with-parent",
    )
    rest: tuple[str, ...] = (
        "rest",
        "start",
        "--override",
        f"bootstrap.servers={bootstrap_servers}",
        "--stop-with-parent",
    )
    if "KAFKA_REST_SCHEMA_REGISTRY_URL" not in environment:
        rest += ("--override", f"schema.registry.url={registry_url(environment)}")
    return [Companion("schema registry", registry), Companion("REST proxy", rest)]


def registry_url(environment: Mapping[str, str]) -> str:
    from barnabas.services.environment import parse_listener
    from barnabas.services.registry.settings import DEFAULT_PORT, from_environment

    properties = from_environment(environment)
    host, port = parse_listener(properties, DEFAULT_PORT)
    scheme = "https" if properties.get("listeners", "").strip().lower().startswith("https:") else "http"
    return f"{scheme}://{'localhost' if host in EVERY_ADDRESS else host}:{port}"


class Companions:
    def __init__(self, companions: Sequence[Companion]) -> None:
        self._processes = [
            subprocess.Popen([sys.executable, "-m", "barnabas", *companion.arguments], stdin=subprocess.PIPE)
            for companion in companions
        ]

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
