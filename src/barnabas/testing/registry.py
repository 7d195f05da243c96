"""A real schema registry for tests: a process of its own on a free port, over any Kafka.

with Node() as node, Registry(node.bootstrap_servers) as registry:
    client = SchemaRegistryClient({"url": registry.url})
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.testing.reserved_port import HOST
from barnabas.testing.service import ServiceProcess


class Registry(ServiceProcess):
    """`config` takes any key of Confluent's schema-registry.properties. The port stays the same over restarts."""

    name = "registry"

    def __init__(
        self, bootstrap_servers: str, config: Mapping[str, object] | None = None, *, timeout_s: float = 30.0
    ) -> None:
        kafka = {"kafkastore.bootstrap.servers": bootstrap_servers, "host.name": HOST}
        super().__init__(kafka | dict(config or {}), timeout_s)
