"""Starts the schema registry from a properties file, the environment and overrides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.errors import UsageError
from barnabas.cli.services.foreground import log_to_stderr, parse_overrides, run_command, tell_ready

if TYPE_CHECKING:
    from barnabas.services.registry.service import Service

DEFAULT_KAFKA = "localhost:9092"


def run(arguments: list[str]) -> int:
    """`barnabas registry start [FILE.properties]`."""
    return run_command(
        "barnabas registry", "the schema registry", "Confluent's schema-registry.properties", arguments, serve
    )


def serve(path: str | None, overrides: Sequence[str], ready_fd: int | None = None) -> int:
    from barnabas.client.errors import ClientError
    from barnabas.services.registry.server import run as run_server
    from barnabas.services.registry.settings import RegistrySettings, load_properties
    from barnabas.services.registry.topic import TopicUnusable
    from barnabas.web.server import PortTaken

    log_to_stderr()

    def ready(service: Service, port: int) -> None:
        tell_ready("Schema registry", service.settings.advertised_host, port, ready_fd)

    try:
        properties = load_properties(path, os.environ, parse_overrides(overrides))
        properties.setdefault("kafkastore.bootstrap.servers", DEFAULT_KAFKA)
        run_server(RegistrySettings.from_properties(properties), ready)
    except (ClientError, PortTaken, TopicUnusable) as error:
        raise UsageError(str(error)) from None
    return 0
