"""`barnabas server start`: a node from Kafka's server.properties, the environment and overrides."""

from __future__ import annotations

import argparse

from barnabas.cli.nodes.serve import serve


def run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="barnabas server", description="Starts a node from a configuration file.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start in the foreground")
    start.add_argument("file", nargs="?", metavar="FILE.properties", help="Kafka's server.properties")
    start.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="wins over environment and file"
    )
    start.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    start.add_argument("--stop-with-parent", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)

    from barnabas.node.configuration.sources import load

    return serve(
        lambda overrides: load(options.file, overrides=overrides),
        options.override,
        ready_fd=options.ready_fd,
        stop_with_parent=options.stop_with_parent,
    )
