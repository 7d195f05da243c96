"""`kafka-server-stop`: asks the nodes of this machine to stop, as SIGTERM does.

Nodes that tests started are theirs and are left alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.cli.errors import ToolFailed
from barnabas.cli.options import Parsed, Parser, option

PARSER = Parser(
    name="server-stop",
    summary="Asks the nodes of this machine to stop.",
    helps_without_arguments=False,
    options=(
        option("--node-id", takes="id", kind=int, help="Only the node with this id."),
        option(
            "--process-role",
            takes="role",
            help="broker or controller: only nodes with this role; our nodes have both.",
            choices=("broker", "controller"),
        ),
    ),
)


class Process(NamedTuple):
    pid: int
    words: list[str]
    directory: str | None  # where it was started, for files with relative names


def run(parsed: Parsed) -> int:
    node_id = parsed.number("node-id")
    nodes = [process for process in processes() if is_node(process.words)]
    if node_id is not None:
        nodes = [process for process in nodes if node_id_of(process) == node_id]
    if not nodes:
        raise ToolFailed("No kafka server to stop", on_stdout=True)
    for process in nodes:
        os.kill(process.pid, signal.SIGTERM)
    return 0


def processes() -> Iterator[Process]:
    """Of this user."""
    try:
        listed = os.listdir("/proc")  # noqa: PTH208
    except FileNotFoundError:
        yield from _from_ps()
        return
    for name in listed:
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid != os.getuid():  # noqa: PTH116
                continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            yield Process(int(name), [word for word in words if word], os.readlink(f"/proc/{name}/cwd"))  # noqa: PTH115
        except OSError:
            continue  # it is gone


def _from_ps() -> Iterator[Process]:
    import subprocess

    done = subprocess.run(["ps", "-x", "-o", "pid=,command="], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        pid, _, command = line.strip().partition(" ")
        if pid.isdecimal() and int(pid) != os.getpid():
            yield Process(int(pid), command.split(), None)


def is_node(words: list[str]) -> bool:
    if "--stop-with-parent" in words:
        return False
    names = [word.rpartition("/")[2].removesuffix(".sh") for word in words]
    if "kafka-server-start" in names:
        return not {"-daemon", "--daemon"} & set(words)
    for at, name in enumerate(names[:-1]):
        started = name in ("barnabas", "barnabas.cli.main") and _begins_node(words[at + 1 :])
        if started:
            return True
    return False


def _begins_node(words: list[str]) -> bool:
    return words[:1] == ["up"] or words[:2] == ["server", "start"] or words[:1] == ["server-start"]


def node_id_of(process: Process) -> int:
    """As it stands on the command line or in the file named there; 1 is what a node without one has."""
    overrides = [word for word in process.words if word.startswith(("node.id=", "broker.id="))]
    if overrides:
        return _number(overrides[-1].partition("=")[2])
    for word in process.words:
        if word.endswith(".properties"):
            path = word if process.directory is None else os.path.join(process.directory, word)  # noqa: PTH118
            return _number(_properties(path).get("node.id", "1"))
    return 1


def _properties(path: str) -> dict[str, str]:
    from barnabas.client.errors import ClientError
    from barnabas.client.settings import read_properties

    try:
        return read_properties(path)
    except ClientError:
        return {}


def _number(text: str) -> int:
    return int(text) if text.strip().lstrip("-").isdecimal() else -1
