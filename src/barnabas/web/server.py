"""A service as a process: opens the port, and serves until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.types import ASGIApp

BACKLOG = 2_048
STOP_WITHIN_S = 5
KEEP_ALIVE_S = 75


class PortTaken(Exception):
    """Its text is a sentence."""


def listen(host: str, port: int, what: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTaken(f"{what} cannot listen on {host}:{port}: {error.strerror or error}.") from None
    return listening


async def serve(
    app: ASGIApp,
    listening: socket.socket,
    up: Callable[[], None],
    *,
    protocol: Any = "auto",
    websockets: Any = "none",
    tls: ssl.SSLContext | None = None,
    headers: Sequence[tuple[str, str]] = (),
) -> None:
    """Until SIGINT or SIGTERM. `up` is called once requests are taken; `headers` go with every answer."""
    config = uvicorn.Config(
        app,
        http=protocol,
        ws=websockets,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_WITHIN_S,
        headers=list(headers),
    )
    config.load()
    config.ssl = tls
    server = Server(config, up)
    stop_by_signals(server)
    await server.serve(sockets=[listening])


def stop_by_signals(server: uvicorn.Server) -> None:
    loop = asyncio.get_running_loop()

    def stop(*_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(setattr, server, "should_exit", True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


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
