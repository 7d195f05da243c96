"""A real REST proxy for tests: a process of its own on a free port, over any Kafka.

with Node() as node, Rest(node.bootstrap_servers) as rest:
    urlopen(f"{rest.url}/topics")
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.testing.service import ServiceProcess


class Rest(ServiceProcess):
    """`config` takes any key of Confluent's kafka-rest.properties. The port stays the same over restarts."""

    name = "rest"

    def __init__(
        self, bootstrap_servers: str, config: Mapping[str, object] | None = None, *, timeout_s: float = 30.0
    ) -> None:
        super().__init__({"bootstrap.servers": bootstrap_servers} | dict(config or {}), timeout_s)
