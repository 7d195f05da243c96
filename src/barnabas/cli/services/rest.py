"""Starts the REST proxy from a properties file, the environment and overrides."""

from __future__ import annotations

import os
from collections.abc import Sequence

from barnabas.cli.errors import UsageError
from barnabas.cli.services.foreground import log_to_stderr, parse_overrides, run_command, tell_ready

DEFAULTS = {"bootstrap.servers": "localhost:9092", "schema.registry.url": "http://localhost:8081"}


def run(arguments: list[str]) -> int:
    """`barnabas rest start [FILE.properties]`."""
    return run_command("barnabas rest", "the REST proxy", "Confluent's kafka-rest.properties", arguments, serve)


def serve(path: str | None, overrides: Sequence[str], ready_fd: int | None = None) -> int:
    from barnabas.client.errors import ClientError
    from barnabas.services.environment import load_properties
    from barnabas.services.rest.server import run as run_server
    from barnabas.services.rest.settings import ENVIRONMENT_PREFIX, RestSettings
    from barnabas.web.server import PortTaken

    log_to_stderr()
    try:
        given = load_properties(path, os.environ, parse_overrides(overrides), ENVIRONMENT_PREFIX)
        if "client.bootstrap.servers" in given:
            given.setdefault("bootstrap.servers", given["client.bootstrap.servers"])
        settings = RestSettings.from_properties(DEFAULTS | given)
        host = settings.host_name or "localhost"
        run_server(settings, lambda port: tell_ready("REST proxy", host, port, ready_fd))
    except (ClientError, PortTaken) as error:
        raise UsageError(str(error)) from None
    return 0
