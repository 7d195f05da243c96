"""Runs a node until it is asked to stop: Ctrl-C, SIGTERM or, for the nodes of tests, the end of the parent.

A signal during the start ends the start; one during the stop changes nothing, because the stop is under way.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.errors import UsageError

if TYPE_CHECKING:
    from barnabas.cli.services.companions import Companions
    from barnabas.node.configuration import BrokerConfig
    from barnabas.node.node import Node

log = logging.getLogger("barnabas")

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# A look for garbage among the youngest objects takes a millisecond or two, one among those that survived some of these
# a few more; one among all objects is rare, for it takes as long as there are objects, and what a request makes refers
# to nothing that refers back.
GC_THRESHOLDS = (20_000, 5, 1_000)
PARENT_CHECK_S = 1.0
METADATA_DIRECTORY = "__cluster_metadata-0"


def serve(
    configure: Callable[[dict[str, str]], BrokerConfig],
    overrides: list[str],
    *,
    friendly: bool = False,
    ready_fd: int | None = None,
    stop_with_parent: bool = False,
    companions: bool = False,
) -> int:
    from barnabas.node.configuration import ConfigError
    from barnabas.node.configuration.sources import parse_overrides

    logging.basicConfig(
        level=_log_level("WARNING" if friendly else "INFO"),
        format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)",
        stream=sys.stderr,
    )
    try:
        config = configure(parse_overrides(overrides))
    except ConfigError as error:
        raise UsageError(str(error)) from error
    for warning in config.warnings:
        log.warning(warning)
    return _run(config, friendly, ready_fd, stop_with_parent, companions)


def _log_level(default: str) -> str:
    level = os.environ.get("BARNABAS_LOG_LEVEL", default).upper()
    if level not in LOG_LEVELS:
        raise UsageError(f"BARNABAS_LOG_LEVEL={level} cannot be used: it must be one of {', '.join(LOG_LEVELS)}.")
    return level


def _run(config: BrokerConfig, friendly: bool, ready_fd: int | None, stop_with_parent: bool, companions: bool) -> int:
    import uvloop

    from barnabas.node.node import StartError
    from barnabas.node.open_files import raise_limit

    raise_limit()

    async def main() -> int:
        stop = asyncio.Event()
        _heed_signals(stop)
        if stop_with_parent:
            _heed_parent(stop)
        return await _until_stopped(config, stop, friendly, ready_fd, companions)

    new = [directory for directory in map(Path, config.log_dirs) if not directory.exists()]
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    except StartError as error:
        if friendly:
            _remove_if_empty(new)
        raise UsageError(str(error)) from error


def _remove_if_empty(directories: list[Path]) -> None:
    """Of a node that was never up: directories that it made, and in which no topic is."""
    for directory in directories:
        if directory.exists() and all(
            entry.name == METADATA_DIRECTORY or not entry.is_dir() for entry in directory.iterdir()
        ):
            shutil.rmtree(directory, ignore_errors=True)


def _heed_signals(stop: asyncio.Event) -> None:
    """Not by the loop, which would give the signals back when it closes: a second Ctrl-C may come as late as that."""
    loop = asyncio.get_running_loop()

    def ask_to_stop(*_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask_to_stop)


def _heed_parent(stop: asyncio.Event) -> None:
    """The parent holds our standard input open; its forked children may do so for longer than it lives."""
    loop = asyncio.get_running_loop()
    parent = os.getppid()

    def input_ended() -> None:
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

    def check_parent() -> None:
        if os.getppid() == parent:
            loop.call_later(PARENT_CHECK_S, check_parent)
        else:
            stop.set()

    loop.add_reader(sys.stdin.fileno(), input_ended)
    check_parent()


async def _until_stopped(
    config: BrokerConfig, stop: asyncio.Event, friendly: bool, ready_fd: int | None, companions: bool
) -> int:
    stopping = asyncio.ensure_future(stop.wait())
    node = await _started(config, stopping)
    if node is None:
        return 0
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    if friendly:
        _greet(node)
    else:
        log.info("the node is up; its data is in %s", ", ".join(map(str, node.config.log_dirs)))
    if ready_fd is not None:
        ready = {"listeners": node.bound_ports(), "cluster_id": node.cluster_id}
        os.write(ready_fd, json.dumps(ready).encode() + b"\n")
        os.close(ready_fd)
    beside = _start_companions(node) if companions else None
    failed = asyncio.ensure_future(node.failed.wait())
    await asyncio.wait([failed, stopping], return_when=asyncio.FIRST_COMPLETED)
    if friendly:
        _say("\nStopping ...")
    if beside is not None:
        await asyncio.to_thread(beside.stop)
    await node.stop()
    for task in (failed, stopping):
        task.cancel()
    if node.failure:
        raise UsageError(node.failure)
    return 0


async def _started(config: BrokerConfig, stopping: asyncio.Future[Any]) -> Node | None:
    """None if it was asked to stop before it was up."""
    from barnabas.node.node import Node

    starting: asyncio.Future[Any] = asyncio.ensure_future(Node.start(config))
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
    return None if starting.cancelled() else starting.result()


def _start_companions(node: Node) -> Companions:
    from barnabas.cli.services.companions import Companions, companions_of

    port = next(port for name, port in node.bound_ports().items() if name not in node.config.controller_listener_names)
    directory = Path(node.config.log_dirs[0])
    return Companions(companions_of(f"localhost:{port}", directory.with_name(f"{directory.name}-services")))


def _greet(node: Node) -> None:
    _say(f"Barnabas is up: node {node.node_id} of cluster {node.cluster_id}")
    for line in node.describe_listeners():
        _say(f"  {line}")
    _say(f"  data in {', '.join(map(str, node.config.log_dirs))}")
    _say("Ctrl-C stops it.")


def _say(text: str) -> None:
    """The node outlives whoever reads what it says."""
    try:
        print(text, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
