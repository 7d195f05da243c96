"""kcat, as Debian packages it, against the node: produce, consume, list, query offsets, tombstones."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from barnabas.testing import Node

from .clusters import our_tool

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as running:
        yield running


def kcat(node: Node, *arguments: str, stdin: str = "") -> str:
    assert KCAT is not None
    done = subprocess.run(
        [KCAT, "-b", node.bootstrap_servers, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_kcat_produces_it_consumes(node: Node) -> None:
    node.create_topic("lines", partitions=1)
    kcat(node, "-P", "-t", "lines", "-K:", "-H", "a=1", stdin="k1:v1\nk2:v2\n")
    kcat(node, "-P", "-t", "lines", "-K:", "-z", "snappy", stdin="k3:v3\n")
    said = kcat(node, "-C", "-t", "lines", "-e", "-q", "-f", "%p/%o %k=%s %h\n")
    assert said.splitlines() == ["0/0 k1=v1 a=1", "0/1 k2=v2 a=1", "0/2 k3=v3 "]
    assert kcat(node, "-C", "-t", "lines", "-o", "-1", "-e", "-q") == "v3\n"
    envelope = json.loads(kcat(node, "-C", "-t", "lines", "-c", "1", "-q", "-J"))
    assert (envelope["key"], envelope["payload"], envelope["headers"]) == ("k1", "v1", ["a", "1"])


def test_kcat_lists_the_cluster(node: Node) -> None:
    node.create_topic("listed", partitions=3)
    said = kcat(node, "-L", "-t", "listed")
    assert f"broker 1 at {node.bootstrap_servers}" in said
    assert 'topic "listed" with 3 partitions' in said
    listed = json.loads(kcat(node, "-L", "-J"))
    assert [len(topic["partitions"]) for topic in listed["topics"] if topic["topic"] == "listed"] == [3]


def test_kcat_queries_offsets_by_time(node: Node) -> None:
    node.create_topic("times", partitions=1)
    base_ms = round(time.time() * 1000) - 60_000
    lines = "".join(f'{{"value": "v", "timestamp": {base_ms + after_ms}}}\n' for after_ms in (0, 1000, 2000))
    assert (
        our_tool("barnabas", ["produce", "--json", "times", "--bootstrap-server", node.bootstrap_servers], lines)[2]
        == 0
    )
    assert kcat(node, "-Q", "-t", f"times:0:{base_ms + 500}").split() == ["times", "[0]", "offset", "1"]
    assert kcat(node, "-Q", "-t", "times:0:-1").split() == ["times", "[0]", "offset", "3"]
    assert kcat(node, "-C", "-t", "times", "-o", f"s@{base_ms + 500}", "-e", "-q", "-f", "%o,") == "1,2,"


def test_tombstones_of_kcat_are_tombstones(node: Node) -> None:
    """`echo "key:" | kcat -b localhost -t mysql-01-events -Z -K:`, as the course types it."""
    node.create_topic("events", partitions=1)
    kcat(node, "-t", "events", "-Z", "-K:", "-P", stdin="key:\n")
    arguments = ["consume", "events", "-e", "-J", "--bootstrap-server", node.bootstrap_servers]
    stdout, _, code = our_tool("barnabas", arguments, "")
    assert code == 0
    record = json.loads(stdout)
    assert (record["key"], record["value"]) == ("key", None)


def test_kcat_reads_our_tombstones(node: Node) -> None:
    node.create_topic("gone", partitions=1)
    arguments = ["produce", "gone", "-K:", "-Z", "--bootstrap-server", node.bootstrap_servers]
    assert our_tool("barnabas", arguments, "a:1\na:\n")[2] == 0
    assert kcat(node, "-C", "-t", "gone", "-e", "-q", "-Z", "-f", "%k=%s %S\n").splitlines() == ["a=1 1", "a=NULL -1"]
    assert our_tool("barnabas", [each for each in arguments if each != "-Z"], "a:\n")[2] == 0
    assert kcat(node, "-C", "-t", "gone", "-e", "-q", "-o", "2", "-f", "%S\n") == "0\n"


def test_kcat_is_a_member_of_a_group(node: Node) -> None:
    node.create_topic("grouped", partitions=2)
    kcat(node, "-P", "-t", "grouped", stdin="a\nb\nc\n")
    said = kcat(node, "-G", "kcats", "-c", "3", "-q", "-X", "auto.offset.reset=earliest", "grouped")
    assert sorted(said.split()) == ["a", "b", "c"]
