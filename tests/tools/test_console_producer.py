"""The console producer as a process: endless input, a node that goes away, a terminal, Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.records.reading import end_offsets, partitions_of, read
from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from tests.support.waiting import wait_until

LIMIT_S = 30.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(data_dir=tmp_path / "data") as running:
        yield running


def console_producer(node: Node, *arguments: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "barnabas", "console-producer", "--bootstrap-server", node.bootstrap_servers]
    return subprocess.Popen(
        [*command, "--topic", "t", *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def values(node: Node) -> list[bytes | None]:
    with Cluster(ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)) as cluster:
        partitions = partitions_of(cluster, ["t"])
        with Fetcher(cluster) as fetcher:
            found = read(fetcher, dict.fromkeys(partitions, 0), until=end_offsets(cluster, partitions))
            return [record.value for some in found for record in some]


def test_nothing_that_was_read_is_lost_or_reordered_while_the_node_is_killed_and_comes_back(node: Node) -> None:
    node.create_topic("t")
    wanted = [b"line %d" % number for number in range(6000)]
    with console_producer(node, "--timeout", "5", "--batch-size", "512") as process:
        assert process.stdin is not None
        for number, line in enumerate(wanted):
            process.stdin.write(line + b"\n")
            if number in (2000, 4000):
                process.stdin.flush()
                wait_until(lambda: len(values(node)) >= 500)
                node.kill()
            if number in (2500, 4500):
                process.stdin.flush()
                node.restart()
        _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, stderr
    assert 1 <= len(stderr.splitlines()) <= 8, "that the node is away is told, and not with every try"
    assert values(node) == wanted


def test_input_that_nobody_takes_waits_where_it_comes_from(node: Node) -> None:
    node.create_topic("t")
    with console_producer(node, "--max-memory-bytes", "200000", "--timeout", "5") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        wait_until(lambda: values(node) == [b"first"])
        node.kill()
        os.set_blocking(process.stdin.fileno(), False)
        line = b"x" * 999 + b"\n"
        written = 0
        blocked_since = time.monotonic()
        while time.monotonic() - blocked_since < 1.0:
            try:
                written += os.write(process.stdin.fileno(), line)
                blocked_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
            assert written < 5_000_000, "it reads on although it has nowhere to put what it reads"
        node.restart()
        os.set_blocking(process.stdin.fileno(), True)
        os.write(process.stdin.fileno(), line[written % 1000 :] if written % 1000 else b"")
        process.stdin.close()
        process.stdin = None
        assert process.wait(LIMIT_S) == 0
        lines = -(-written // 1000)
        assert values(node) == [b"first", *[line[:-1]] * lines]


def test_a_terminal_gets_a_prompt_and_ctrl_c_sends_what_was_typed(node: Node) -> None:
    node.create_topic("t")
    ours, theirs = pty.openpty()
    with console_producer(node, stdin=theirs) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert process.stdout.read(1) == b">"
        os.write(ours, b"hello\n")
        assert process.stdout.read(1) == b">"
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(ours)
    assert values(node) == [b"hello"]


def test_a_line_that_is_too_long_is_left_out_and_told(node: Node) -> None:
    node.create_topic("t")
    with console_producer(node, "--command-property", "max.request.size=1000") as process:
        _, stderr = process.communicate(b"a\n" + b"x" * 300_000 + b"\nb\n" + b"y" * 950 + b"\nc", timeout=LIMIT_S)
    assert process.returncode == 1
    assert stderr.startswith(b"Line 2 is longer than max.request.size")
    assert stderr.count(b"\n") == 2
    assert values(node) == [b"a", b"b", b"c"]


def test_a_broker_that_is_not_there_is_told_at_once() -> None:
    command = [sys.executable, "-m", "barnabas", "console-producer", "--bootstrap-server", "127.0.0.1:1"]
    done = subprocess.run([*command, "--topic", "t"], input=b"x\n", capture_output=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"127.0.0.1:1 cannot be reached: connection refused.\n"
