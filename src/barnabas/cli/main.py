"""The program `barnabas`: a subcommand per tool, each imported when it is called."""

from __future__ import annotations

import sys

from barnabas.cli.catalogue import CONFLUENT_TOOLS, KAFKA_TOOLS, OWN_TOOLS, TOOLS
from barnabas.cli.errors import UsageError

COMMANDS = {
    "up": "Start a node in the foreground.",
    "server": "Start a node from Kafka's server.properties.",
    "connect": "Start a Connect worker; create, watch and change connectors.",
    "registry": "Start the schema registry.",
    "rest": "Start the REST proxy.",
    "sql": "Start the SQL server (sql start), or type SQL statements.",
}
ROOMS = {
    "up": "nodes",
    "server": "nodes",
    "connect": "services",
    "registry": "services",
    "rest": "services",
    "sql": "services",
}


def main(arguments: list[str] | None = None) -> int:
    from barnabas.cli.run import leave, run_tool

    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in TOOLS:
        return leave(run_tool(arguments[0], arguments[1:]))
    if not arguments or arguments[0] not in COMMANDS:
        return _without_command(arguments)
    try:
        return _run_command(arguments[0], arguments[1:])
    except UsageError as error:
        print(f"barnabas {arguments[0]}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def _run_command(name: str, arguments: list[str]) -> int:
    import importlib

    code: int = importlib.import_module(f"barnabas.cli.{ROOMS[name]}.{name}").run(arguments)
    return code


def _without_command(arguments: list[str]) -> int:
    import argparse

    from barnabas import __version__

    parser = argparse.ArgumentParser(
        prog="barnabas",
        description="An event streaming platform in Python that speaks Kafka's wire protocol.",
        epilog=_commands(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"barnabas {__version__}")
    parser.add_argument("command", metavar="command", help="one of the commands below")
    if not arguments:
        parser.print_help()
        return 2
    parser.error(_unknown_command(parser.parse_known_args(arguments)[0].command))


def _commands() -> str:
    lines: list[str] = []
    groups = {
        "commands": COMMANDS | OWN_TOOLS,
        "tools as Kafka has them (installed as kafka-NAME too)": KAFKA_TOOLS,
        "tools as Confluent has them (installed as kafka-NAME too)": CONFLUENT_TOOLS,
    }
    width = max(len(name) for commands in groups.values() for name in commands) + 1
    for title, commands in groups.items():
        lines += [f"{title}:", *(f"  {name:{width}}{what}" for name, what in commands.items()), ""]
    return "\n".join(lines)


def _unknown_command(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name.removeprefix("kafka-"), [*COMMANDS, *TOOLS], n=1)
    return f"there is no command {name}" + (f", is {close[0]} meant?" if close else f" among {', '.join(COMMANDS)}")
