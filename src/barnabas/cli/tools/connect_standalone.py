"""`connect-standalone worker.properties connector.properties ...`: a worker with connectors from files."""

from __future__ import annotations

from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, Positional
from barnabas.cli.tools.connect_distributed import OVERRIDE

PARSER = Parser(
    name="connect-standalone",
    summary="Starts a Connect worker in the foreground, with connectors from .properties or .json files.",
    helps_without_arguments=False,
    positionals=(Positional(name="worker.properties connector.properties ...", help="The files.", completes="file"),),
    options=(OVERRIDE,),
)


def run(parsed: Parsed) -> int:
    from barnabas.cli.services.connect import serve

    if not parsed.rest:
        raise UsageError("A file with the worker's properties is needed.")
    return serve(parsed.rest[0], parsed.texts("override"), distributed=False, files=parsed.rest[1:])
