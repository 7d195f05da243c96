"""The SQL server as a process: replays the command topic, opens the port, and serves until it is asked to stop."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from barnabas.pipelines.sql.server.http import make_app
from barnabas.pipelines.sql.server.rights import reads, refusal
from barnabas.pipelines.sql.server.service import SqlService
from barnabas.pipelines.sql.server.settings import SqlSettings
from barnabas.web import server
from barnabas.web.http2 import Http1Or2
from barnabas.web.websockets import WebSocketProtocol

# Threads follow topics and wait for Spark beside the one that answers. It waits for them no longer than this, and the
# collector looks through all objects seldom, and not at those that were there from the beginning.
SWITCH_S = 0.0005
GC_THRESHOLDS = (20_000, 5, 50)
THREADS = 64  # that statements wait in; asyncio has six of them on two cores, which six SELECTs by Spark would take


def answer_first() -> None:
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def run(settings: SqlSettings, ready: Callable[[SqlService, int], None]) -> None:
    """Until SIGINT or SIGTERM. `ready` is told the port."""
    import uvloop

    security = settings.security
    tls = security.context()
    if tls is not None:
        tls.set_alpn_protocols(["h2", "http/1.1"])
    listening = server.listen(settings.host, settings.port, "The SQL server")
    try:
        service = SqlService(settings)
        try:
            service.start()
            answer_first()
            port = listening.getsockname()[1]
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.get_loop().set_default_executor(ThreadPoolExecutor(THREADS, "sql-http"))
                runner.run(
                    server.serve(
                        security.keep_strangers_out(security.guard(make_app(service), reads=reads, refusal=refusal)),
                        listening,
                        lambda: ready(service, port),
                        protocol=Http1Or2,
                        websockets=WebSocketProtocol,
                        tls=tls,
                    )
                )
        finally:
            service.stop()
    finally:
        listening.close()
