"""HTTP services in the foreground: their command line, their log, and how their end is told."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from barnabas.cli.errors import UsageError

Serve = Callable[[str | None, Sequence[str], int | None], int]


def run_command(program: str, what: str, file_help: str, arguments: list[str], serve: Serve) -> int:
    """`barnabas <service> start [FILE.properties] [--override key=value]`."""
    parser = argparse.ArgumentParser(prog=program, description=f"Starts {what}.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start in the foreground")
    start.add_argument("file", nargs="?", metavar="FILE.properties", help=file_help)
    add_start_options(start)
    options = parser.parse_args(arguments)
    follow_parent(options)
    return serve(options.file, options.override, options.ready_fd)


def add_start_options(start: argparse.ArgumentParser) -> None:
    start.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="wins over environment and file"
    )
    start.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    start.add_argument("--stop-with-parent", action="store_true", help=argparse.SUPPRESS)


def follow_parent(options: argparse.Namespace) -> None:
    if options.stop_with_parent:
        threading.Thread(target=_stop_with_input, name="service-parent", daemon=True).start()


def _stop_with_input() -> None:
    """The parent holds our standard input open. sys.stdin's lock, held by a thread that waits, would abort our end."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def log_to_stderr() -> None:
    logging.basicConfig(
        level=os.environ.get("BARNABAS_LOG_LEVEL", "INFO").upper(),
        format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)",
        stream=sys.stderr,
    )


def tell_ready(what: str, host: str, port: int, ready_fd: int | None, scheme: str = "http") -> None:
    print(f"{what} is up: {scheme}://{host}:{port}", flush=True)
    if ready_fd is not None:
        os.write(ready_fd, json.dumps({"port": port}).encode() + b"\n")
        os.close(ready_fd)


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{override} is not an override: key=value is expected.")
        parsed[key.strip()] = value
    return parsed
