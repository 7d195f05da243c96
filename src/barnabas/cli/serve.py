"""Runs a node until it is asked to stop: Ctrl-C, SIGTERM, or the end of standard input."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.cli.errors import UsageError

if TYPE_CHECKING:
    from barnabas.node.configuration import BrokerConfig
    from barnabas.node.node import Node

log = logging.getLogger("barnabas")


def serve(
    configure: Callable[[dict[str, str]], BrokerConfig],
    overrides: list[str],
    *,
    friendly: bool = False,
    ready_fd: int | None = None,
    stop_on_eof: bool = False,
) -> int:
    from barnabas.node.configuration import ConfigError
    from barnabas.node.configuration.sources import parse_overrides

    logging.basicConfig(
        level=os.environ.get("BARNABAS_LOG_LEVEL", "WARNING" if friendly else "INFO").upper(),
        format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)",
        stream=sys.stderr,
    )
    try:
        config = configure(parse_overrides(overrides))
    except ConfigError as error:
        raise UsageError(str(error)) from error
    for warning in config.warnings:
        log.warning(warning)
    return _run(config, friendly, ready_fd, stop_on_eof)


def _run(config: BrokerConfig, friendly: bool, ready_fd: int | None, stop_on_eof: bool) -> int:
    import uvloop

    from barnabas.node.node import StartError

    async def main() -> int:
        return await _until_stopped(config, friendly, ready_fd, stop_on_eof)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    except StartError as error:
        raise UsageError(str(error)) from error


async def _until_stopped(config: BrokerConfig, friendly: bool, ready_fd: int | None, stop_on_eof: bool) -> int:
    from barnabas.node.node import Node

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if stop_on_eof:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    node = await Node.start(config)
    gc.freeze()
    if friendly:
        _greet(node)
    if ready_fd is not None:
        ready = {"listeners": node.bound_ports(), "cluster_id": node.cluster_id}
        os.write(ready_fd, json.dumps(ready).encode() + b"\n")
        os.close(ready_fd)
    failed = asyncio.ensure_future(node.failed.wait())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([failed, stopping], return_when=asyncio.FIRST_COMPLETED)
    if friendly:
        print("\nStopping ...", flush=True)
    await node.stop()
    for task in (failed, stopping):
        task.cancel()
    if node.failure:
        raise UsageError(node.failure)
    return 0


def _greet(node: Node) -> None:
    print(f"Barnabas is up: node {node.node_id} of cluster {node.cluster_id}")
    for line in node.describe_listeners():
        print(f"  {line}")
    print(f"  data in {', '.join(map(str, node.config.log_dirs))}")
    print("Ctrl-C stops it.", flush=True)
