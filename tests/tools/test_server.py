"""Nodes started and stopped as the courses do it: kafka-server-start -daemon, kafka-server-stop."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.cli.tools.server_stop import Process, is_node, node_id_of
from tests.support import reference

from .clusters import our_tool

NODE_ID = 9077
LIMIT_S = 30


def _run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = "import sys; from barnabas.cli.run import script; sys.argv[0] = sys.argv.pop(1); sys.exit(script())"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LIMIT_S * 3,
        check=False,
        env={**os.environ, "LOG_DIR": str(cwd / "logs")},
    )


def _properties(directory: Path) -> tuple[Path, int]:
    port = reference.free_port()
    path = directory / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id={NODE_ID}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{reference.free_port()}\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={directory}/data\n"
    )
    return path, port


def test_a_daemon_is_up_when_its_start_returns_and_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    path, port = _properties(tmp_path)
    started = _run("kafka-server-start.sh", "-daemon", path.name, cwd=tmp_path)
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    try:
        listed = our_tool("kafka-topics", ["--bootstrap-server", f"127.0.0.1:{port}", "--list"], None)
        assert listed == ("", "", 0)
    finally:
        stopped = _run("kafka-server-stop.sh", "--node-id", str(NODE_ID), cwd=tmp_path)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    limit = time.monotonic() + LIMIT_S
    while (again := _run("kafka-server-stop", "--node-id", str(NODE_ID), cwd=tmp_path)).returncode == 0:
        assert time.monotonic() < limit
        time.sleep(0.1)
    assert (again.returncode, again.stdout) == (1, "No kafka server to stop\n")


def test_a_daemon_that_cannot_start_says_why(tmp_path: Path) -> None:
    done = _run("kafka-server-start", "-daemon", "no-such.properties", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("The node did not start: ")
    assert "no-such.properties" in done.stderr


def test_without_a_file_the_start_says_what_it_needs() -> None:
    stdout, stderr, code = our_tool("kafka-server-start", [], None)
    assert (stdout, code) == ("", 1)
    assert "server.properties is missing" in stderr


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("/usr/bin/python /opt/bin/kafka-server-start server.properties", True),
        ("/usr/bin/python -m barnabas server start --override node.id=3", True),
        ("/usr/bin/python /opt/bin/barnabas up", True),
        ("/usr/bin/python -m barnabas server start --stop-with-parent", False),
        ("/usr/bin/python /opt/bin/kafka-server-start.sh -daemon server.properties", False),
        ("/usr/bin/python /opt/bin/kafka-server-stop", False),
        ("vim barnabas up.txt", False),
        ("/usr/bin/python /opt/bin/barnabas topics --list", False),
    ],
)
def test_only_nodes_are_stopped(command: str, is_one: bool) -> None:
    assert is_node(command.split()) is is_one


def test_the_id_of_a_node_stands_on_its_command_line_or_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("node.id = 5\n")
    words = ["python", "kafka-server-start", "server.properties"]
    assert node_id_of(Process(1, words, str(tmp_path))) == 5
    assert node_id_of(Process(1, [*words, "--override", "node.id=6"], str(tmp_path))) == 6
    assert node_id_of(Process(1, ["python", "barnabas", "up"], None)) == 1
