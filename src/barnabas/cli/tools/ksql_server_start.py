"""`ksql-server-start [FILE] [--queries-file FILE] [--override key=value]`: the SQL server from ksqlDB's properties."""

from __future__ import annotations

from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

PARSER = Parser(
    name="ksql-server-start",
    summary="Starts the SQL server in the foreground.",
    helps_without_arguments=False,
    positionals=(Positional(name="ksql-server.properties", help="Its configuration.", completes="file"),),
    options=(
        option("--queries-file", takes="file", help="Run the statements of a file, and no others.", completes="file"),
        option("--override", takes="key=value", repeated=True, help="Wins over environment and file; may be repeated."),
    ),
)


def run(parsed: Parsed) -> int:
    from barnabas.cli.services.sql import serve

    if len(parsed.rest) > 1:
        raise UsageError(f"{parsed.rest[1]} is one file too many.")
    overrides = parsed.texts("override")
    if (queries := parsed.text("queries-file")) is not None:
        overrides = [*overrides, f"ksql.queries.file={queries}"]
    return serve(parsed.rest[0] if parsed.rest else None, overrides)
