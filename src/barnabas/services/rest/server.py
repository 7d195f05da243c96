"""The REST proxy as a process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.routes import ROUTES
from barnabas.services.rest.settings import RestSettings
from barnabas.web import server
from barnabas.web.app import WebApp

START_WITHIN_S = 60.0
PAUSE_S = 0.5


def run(settings: RestSettings, ready: Callable[[int], None]) -> None:
    """Until SIGINT or SIGTERM. `ready` is told the port."""
    import uvloop

    listening = server.listen(settings.listen_host, settings.port, "The REST proxy")
    try:
        wait_for_kafka(settings)
        proxy = Proxy(settings)
        app = WebApp(proxy, ROUTES, proxy.metrics, body_bytes_max=settings.body_bytes_max)
        port = listening.getsockname()[1]
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                guarded, tls = settings.security.guard(app), settings.security.context()
                up, headers = (lambda: ready(port)), settings.response_headers
                runner.run(server.serve(guarded, listening, up, tls=tls, headers=headers))
        finally:
            proxy.close()
    finally:
        listening.close()


def wait_for_kafka(settings: RestSettings) -> None:
    """A cluster that starts at the same time is waited for."""
    until = time.monotonic() + START_WITHIN_S
    while True:
        try:
            with Cluster(settings.kafka) as cluster:
                cluster.metadata([])
            return
        except BrokerUnreachable:
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE_S)
