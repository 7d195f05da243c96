"""`schema-registry-start [FILE] [--override key=value]`: the schema registry from Confluent's properties."""

from __future__ import annotations

from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

PARSER = Parser(
    name="schema-registry-start",
    summary="Starts the schema registry in the foreground.",
    helps_without_arguments=False,
    positionals=(
        Positional(name="schema-registry.properties", help="Its configuration.", required=False, completes="file"),
    ),
    options=(
        option("--override", takes="key=value", repeated=True, help="Wins over environment and file; may be repeated."),
    ),
)


def run(parsed: Parsed) -> int:
    from barnabas.cli.services.registry import serve

    if len(parsed.rest) > 1:
        raise UsageError(f"{parsed.rest[1]} is one file too many.")
    return serve(parsed.rest[0] if parsed.rest else None, parsed.texts("override"))
