"""Starts the SQL server from a properties file, the environment and overrides; `barnabas sql` without `start` types
statements to one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from barnabas.cli.errors import UsageError
from barnabas.cli.services.foreground import log_to_stderr, parse_overrides, run_command, tell_ready

SHORT_FORMS = {"--queries-file": "ksql.queries.file", "--master": "spark.master"}


def run(arguments: list[str]) -> int:
    """`barnabas sql start [FILE.properties] [--queries-file FILE] [--master MASTER]`, or `barnabas sql [URL]`."""
    if arguments[:1] != ["start"]:
        from barnabas.cli.run import run_tool

        return run_tool("ksql", arguments, program="barnabas sql")
    return run_command(
        "barnabas sql", "the SQL server", "ksqlDB's ksql-server.properties", spelled_out(arguments), serve
    )


def spelled_out(arguments: list[str]) -> list[str]:
    """`--queries-file x` is `--override ksql.queries.file=x`."""
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in SHORT_FORMS:
            found.append(word)
            continue
        given = value if equals else next(words, "")
        if not given:
            raise UsageError(f"{name} needs a value.")
        found += ["--override", f"{SHORT_FORMS[name]}={given}"]
    return found


def serve(path: str | None, overrides: Sequence[str], ready_fd: int | None = None) -> int:
    from barnabas.client.errors import ClientError
    from barnabas.pipelines.sql.errors import SqlError
    from barnabas.pipelines.sql.server.process import run as run_server
    from barnabas.pipelines.sql.server.settings import SqlSettings, load_properties
    from barnabas.web.server import PortTaken

    log_to_stderr()
    try:
        properties = load_properties(path, os.environ, parse_overrides(overrides))
        settings = SqlSettings.from_properties(properties)
        run_server(settings, lambda _, port: tell_ready("SQL server", "localhost", port, ready_fd))
    except (ClientError, PortTaken, SqlError) as error:
        raise UsageError(str(error)) from None
    return 0
