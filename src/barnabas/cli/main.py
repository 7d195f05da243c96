"""The program `barnabas`: a subcommand per tool, each imported when it is called."""

from __future__ import annotations

import argparse
import importlib
import sys

from barnabas.cli.errors import UsageError

COMMANDS = {
    "up": "start a node in the foreground",
    "server": "start a node from Kafka's server.properties",
}


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] not in COMMANDS:
        return _without_command(arguments)
    try:
        command = importlib.import_module(f"barnabas.cli.{arguments[0]}")
        code: int = command.run(arguments[1:])
        return code
    except UsageError as error:
        print(f"barnabas {arguments[0]}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def _without_command(arguments: list[str]) -> int:
    from barnabas import __version__

    parser = argparse.ArgumentParser(
        prog="barnabas",
        description="An event streaming platform in Python that speaks Kafka's wire protocol.",
        epilog="\n".join(["commands:", *(f"  {name:8} {what}" for name, what in COMMANDS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"barnabas {__version__}")
    parser.add_argument("command", metavar="command", help="one of the commands below")
    if not arguments:
        parser.print_help()
        return 2
    parser.error(_unknown_command(parser.parse_known_args(arguments)[0].command))


def _unknown_command(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    return f"there is no command {name}" + (f", is {close[0]} meant?" if close else f" among {', '.join(COMMANDS)}")
