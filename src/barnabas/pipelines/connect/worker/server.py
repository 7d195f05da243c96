"""The worker as a process: opens the port, loads the topics, and serves until it is asked to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import uvicorn

from barnabas.pipelines.connect.worker.herder import Herder
from barnabas.pipelines.connect.worker.http import make_app, refusal
from barnabas.pipelines.connect.worker.settings import WorkerSettings
from barnabas.web.server import Server, listen, stop_by_signals


def run(
    settings: WorkerSettings, connectors: Sequence[Mapping[str, str]], ready: Callable[[Herder, int], None]
) -> None:
    """Until SIGINT or SIGTERM. `connectors` are those of a standalone worker's files."""
    listening = listen(settings.listen_host, settings.port, "The worker")
    port = listening.getsockname()[1]
    if not settings.port:
        settings = replace(settings, port=port, advertised_port=settings.advertised_port or port)
    try:
        herder = Herder(settings)
        herder.load()
        asyncio.run(serve(herder, listening, connectors, ready))
    finally:
        listening.close()


async def serve(
    herder: Herder,
    listening: socket.socket,
    connectors: Sequence[Mapping[str, str]],
    ready: Callable[[Herder, int], None],
) -> None:
    security = herder.settings.security
    config = uvicorn.Config(
        security.keep_strangers_out(security.guard(make_app(herder), refusal=refusal)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    config.load()
    config.ssl = security.context()
    server = Server(config, lambda: ready(herder, listening.getsockname()[1]))
    stop_by_signals(server)
    herder.start()
    try:
        for settings in connectors:
            await herder.put(settings["name"], settings)
        await server.serve(sockets=[listening])
    finally:
        await herder.close()
