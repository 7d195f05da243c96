"""The registry as a process: loads the topic, opens the port, and serves until it is asked to stop."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable

from barnabas.services.registry.http import make_app
from barnabas.services.registry.quick import KeptAnswers, quick_protocol
from barnabas.services.registry.routes import ROUTES
from barnabas.services.registry.service import Service
from barnabas.services.registry.settings import RegistrySettings
from barnabas.services.registry.subjects import DEFAULT_CONTEXT
from barnabas.web import server

RECURSION_MAX = 4_000  # schemas nest deeper than Python's default allows


def run(settings: RegistrySettings, ready: Callable[[Service, int], None]) -> None:
    """Until SIGINT or SIGTERM. `ready` is told the port."""
    import uvloop

    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_MAX))
    listening = server.listen(settings.listen_host, settings.port, "The registry")
    try:
        service = Service(settings, listening.getsockname()[1])
        service.load()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(service, listening, ready))
    finally:
        listening.close()


async def serve(service: Service, listening: socket.socket, ready: Callable[[Service, int], None]) -> None:
    ids = service.state.ids.setdefault(DEFAULT_CONTEXT, {})
    security = service.settings.security
    # The quick way looks at no password and knows no further headers.
    kept = KeptAnswers(service)
    headers = service.settings.response_headers
    is_quick = security.is_open and not headers
    protocol = quick_protocol(ids, kept, service.metrics) if is_quick else "auto"
    await service.start()
    try:
        port = listening.getsockname()[1]
        app = security.guard(make_app(service, ROUTES, kept))
        up = lambda: ready(service, port)  # noqa: E731
        await server.serve(app, listening, up, protocol=protocol, tls=security.context(), headers=headers)
    finally:
        await service.stop()
