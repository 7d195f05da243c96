"""`kafka-server-start [-daemon] FILE [--override key=value]`: a node from Kafka's server.properties."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

USAGE = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*"
READY_TIMEOUT_S = 60
OUTPUT_NAME = "kafkaServer.out"

PARSER = Parser(
    name="server-start",
    summary="Starts a node from Kafka's server.properties, in the foreground or with -daemon in the background.",
    helps_without_arguments=False,
    positionals=(Positional(name="server.properties", help="The node's configuration.", completes="file"),),
    options=(
        option(
            "--daemon",
            "-daemon",
            help=f"In the background: what it prints goes to {OUTPUT_NAME} in LOG_DIR, or in ./logs. "
            "Returns when the node is up.",
        ),
        option("--override", takes="key=value", repeated=True, help="Wins over environment and file; may be repeated."),
        option("--name", "-name", takes="name", help="For the JVM of Kafka's script, without effect.", hidden=True),
        option("--loggc", "-loggc", help="For the JVM of Kafka's script, without effect.", hidden=True),
    ),
)


def run(parsed: Parsed) -> int:
    from barnabas.cli.nodes.serve import serve
    from barnabas.node.configuration.sources import load

    if not parsed.rest:
        raise UsageError(USAGE)
    if len(parsed.rest) > 1:
        raise UsageError(f"{parsed.rest[1]} is one file too many. {USAGE}")
    path, overrides = parsed.rest[0], parsed.texts("override")
    if "daemon" in parsed:
        return _daemon(path, overrides)
    return serve(lambda given: load(path, overrides=given), overrides)


def _daemon(path: str, overrides: list[str]) -> int:
    """The node outlives this process. Its failure to start is told here."""
    import subprocess

    output = Path(os.environ.get("LOG_DIR", "logs")) / OUTPUT_NAME
    output.parent.mkdir(parents=True, exist_ok=True)
    ready, told = os.pipe()
    command = [sys.executable, "-m", "barnabas", "server", "start", path, "--ready-fd", str(told)]
    for override in overrides:
        command += ["--override", override]
    with open(output, "wb") as log:
        node = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[told]
        )
    os.close(told)
    with os.fdopen(ready) as answers:
        is_up = _answered(answers.fileno())
    if is_up:
        return 0
    if node.poll() is None:
        try:
            node.wait(1)
        except subprocess.TimeoutExpired:
            raise ToolFailed(
                f"The node (process {node.pid}) is still starting after {READY_TIMEOUT_S} s; see {output}."
            ) from None
    lines = output.read_text(errors="replace").splitlines()
    raise ToolFailed(f"The node did not start: {lines[-1] if lines else f'see {output}'}")


def _answered(descriptor: int) -> bool:
    import select

    readable, _, _ = select.select([descriptor], [], [], READY_TIMEOUT_S)
    return bool(readable) and bool(os.read(descriptor, 1))
