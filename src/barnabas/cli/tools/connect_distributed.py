"""`connect-distributed worker.properties`: a Connect worker of a group."""

from __future__ import annotations

from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

OVERRIDE = option("--override", takes="key=value", repeated=True, help="Wins over environment and file.")
PARSER = Parser(
    name="connect-distributed",
    summary="Starts a Connect worker in the foreground.",
    helps_without_arguments=False,
    positionals=(Positional(name="worker.properties", help="Its configuration.", completes="file"),),
    options=(OVERRIDE,),
)


def run(parsed: Parsed) -> int:
    from barnabas.cli.services.connect import serve

    if len(parsed.rest) > 1:
        raise UsageError(f"{parsed.rest[1]} is one file too many: connectors are created by REST.")
    return serve(parsed.rest[0] if parsed.rest else None, parsed.texts("override"), distributed=True)
