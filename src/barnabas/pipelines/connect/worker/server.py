"""The worker as a process: opens the port, loads the topics, and serves until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import uvicorn

from barnabas.pipelines.connect.worker.herder import Herder
from barnabas.pipelines.connect.worker.http import make_app, refusal
from barnabas.pipelines.connect.worker.settings import WorkerSettings

BACKLOG = 1_024


class PortTaken(Exception):
    """Its text is a sentence."""


def run(
    settings: WorkerSettings, connectors: Sequence[Mapping[str, str]], ready: Callable[[Herder, int], None]
) -> None:
    """Until SIGINT or SIGTERM. `connectors` are those of a standalone worker's files."""
    listening = listen(settings)
    port = listening.getsockname()[1]
    if not settings.port:
        settings = replace(settings, port=port, advertised_port=settings.advertised_port or port)
    try:
        herder = Herder(settings)
        herder.load()
        asyncio.run(serve(herder, listening, connectors, ready))
    finally:
        listening.close()


def listen(settings: WorkerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.listen_host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.listen_host, settings.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTaken(
            f"The worker cannot listen on {settings.listen_host}:{settings.port}: {error.strerror}."
        ) from None
    return listening


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
    loop = asyncio.get_running_loop()

    def stop(*_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(setattr, server, "should_exit", True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    herder.start()
    try:
        for settings in connectors:
            await herder.put(settings["name"], settings)
        await server.serve(sockets=[listening])
    finally:
        await herder.close()


class Server(uvicorn.Server):
    """Tells when it is up, and leaves the signals to us."""

    def __init__(self, config: uvicorn.Config, up: Callable[[], None]) -> None:
        super().__init__(config)
        self._up = up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._up()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
