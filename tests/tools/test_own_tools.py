"""The tools that Kafka does not have: tail, produce, consume, lag, top and completion."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from barnabas.cli.tools.tail import shown_time
from barnabas.testing import Node

from .clusters import our_tool


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node({"group.initial.rebalance.delay.ms": 0}) as running:
        running.create_topic("orders", partitions=2)
        running.create_topic("prices", partitions=1)
        produce(running, "orders", "anna:apples\nbert:bread\nanna:ananas\n", "-K:", "-H", "shop=one")
        produce(running, "prices", "1\n2\n3\n4\n5\n")
        reset = ["--reset-offsets", "--group", "shoppers", "--topic", "prices", "--to-offset", "2", "--execute"]
        assert barnabas(running, "consumer-groups", *reset)[1:] == ("", 0)
        yield running


def barnabas(node: Node, tool: str, *arguments: str, stdin: str = "") -> tuple[str, str, int]:
    return our_tool("barnabas", [tool, *arguments, "--bootstrap-server", node.bootstrap_servers], stdin)


def produce(node: Node, topic: str, lines: str, *arguments: str) -> None:
    assert barnabas(node, "produce", topic, *arguments, stdin=lines) == ("", "", 0)


def consumed(node: Node, topic: str, *arguments: str) -> list[str]:
    stdout, stderr, code = barnabas(node, "consume", topic, "-e", *arguments)
    assert (stderr, code) == ("", 0)
    return stdout.splitlines()


def test_records_go_round_through_json_unchanged(node: Node) -> None:
    node.create_topic("copy", partitions=2)
    lines = consumed(node, "orders", "--json")
    produce(node, "copy", "".join(f"{line}\n" for line in lines), "--json")
    kept = ("key", "value", "headers", "partition", "timestamp")
    originals = [{name: json.loads(line)[name] for name in kept} for line in lines]
    copies = [{name: json.loads(line)[name] for name in kept} for line in consumed(node, "copy", "--json")]
    assert sorted(originals, key=str) == sorted(copies, key=str)
    assert {record["key"]: record["headers"] for record in originals}["anna"] == [["shop", "one"]]


def test_a_tombstone_is_written_only_if_it_is_asked_for(node: Node) -> None:
    node.create_topic("graves", partitions=1)
    stdout, stderr, code = barnabas(node, "produce", "graves", "--json", stdin='{"key": "k", "value": null}\n')
    assert (stdout, code) == ("", 1)
    assert stderr == "Line 1 is a tombstone: its value is null. --tombstones lets it through.\n"
    produce(node, "graves", '{"key": "k", "value": null}\n', "--json", "--tombstones")
    produce(node, "graves", "k:\n", "-K:")
    assert consumed(node, "graves", "-f", "%k=%s %S\\n", "-Z", "NULL") == ["k=NULL -1", "k= 0"]


@pytest.mark.parametrize(
    ("place", "expected"),
    [("beginning", "12345"), ("3", "45"), ("-2", "45"), ("end", ""), ("@1h", "12345"), ("@2099-01-01", "")],
)
def test_reading_begins_where_it_is_told(node: Node, place: str, expected: str) -> None:
    assert "".join(consumed(node, "prices", "-o", place)) == expected


def test_reading_ends_after_a_count(node: Node) -> None:
    stdout, _, code = barnabas(node, "consume", "prices", "-c", "2", "-K", "=")
    assert (stdout, code) == ("=1\n=2\n", 0)


def test_a_group_goes_on_where_it_was(node: Node) -> None:
    for wanted, printed in (("2", "12"), ("1", "3"), ("2", "45")):
        stdout, stderr, code = barnabas(node, "consume", "prices", "-G", "readers", "-c", wanted)
        assert ("".join(stdout.split()), stderr, code) == (printed, "", 0)
    assert barnabas(node, "consumer-groups", "--delete", "--group", "readers")[2] == 0


def test_tail_shows_what_its_filters_let_through(node: Node) -> None:
    def tail(*arguments: str) -> list[str]:
        stdout, stderr, code = barnabas(node, "tail", "orders", "--no-follow", *arguments)
        assert (stderr, code) == ("", 0)
        return [line.partition("  ")[2] for line in stdout.splitlines()]

    assert [line.split()[-1] for line in tail("--since", "1h", "--key", "ann")] == ["apples", "ananas"]
    assert [line.split()[-1] for line in tail("--since", "1h", "--value", "^b")] == ["bread"]
    assert tail("--since", "1h", "--header", "shop=two") == []
    assert len(tail("--since", "1h", "--header", "shop")) == 3
    assert [line.split()[1:] for line in tail("-n", "1")] == [["[shop=one]", "anna", "ananas"]]
    assert tail("--since", "2099-01-01") == []
    assert (
        barnabas(node, "tail", "orders", "-n", "1", "--exit")[0] == barnabas(node, "tail", "orders", "-e", "-n", "1")[0]
    )


def test_tail_tells_the_date_of_what_is_of_another_day() -> None:
    now_ms = round(time.time() * 1000)
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", shown_time(now_ms))
    assert shown_time(now_ms - 86_400_000).startswith(
        time.strftime("%Y-%m-%d ", time.localtime(now_ms / 1000 - 86_400))
    )


def test_tail_tells_a_tombstone_from_an_empty_value_and_moves_no_cursor(node: Node) -> None:
    node.create_topic("odd", partitions=1)
    produce(node, "odd", '{"value": null}\n{"value": "\\u001b[2Jx"}\n{"value_base64": "/wA="}\n', "--json", "-Z")
    stdout, _, _ = barnabas(node, "tail", "odd", "--since", "1h", "--no-follow")
    assert [line.split("  ")[-1] for line in stdout.splitlines()] == ["(tombstone)", "\\x1b[2Jx", "\\xff\\x00"]


def test_lag_is_told_per_topic_partition_and_as_json(node: Node) -> None:
    stdout, _, code = barnabas(node, "lag")
    assert (code, stdout.splitlines()[1].split()) == (0, ["shoppers", "Empty", "0", "prices", "2", "5", "3"])
    stdout, _, _ = barnabas(node, "lag", "shoppers", "--partitions", "--output", "json")
    (row,) = json.loads(stdout)
    assert (row["group"], row["partition"], row["lag"]) == ("shoppers", 0, 3)
    stdout, _, _ = barnabas(node, "lag", "--watch", "0.01", "--rounds", "1", "--output", "json")
    assert json.loads(stdout)[0]["lag"] == 3
    stdout, _, _ = barnabas(node, "lag", "--watch", "0.01", "--rounds", "2")
    assert stdout.count("GROUP") == 2


def test_top_measures_what_is_written_between_two_looks(node: Node) -> None:
    stdout, _, code = barnabas(node, "top", "--rounds", "2", "--interval", "0.01", "--partitions")
    assert code == 0
    assert "measuring ..." in stdout
    assert "prices-0" in stdout
    stdout, _, _ = barnabas(node, "top", "--rounds", "1", "--output", "json")
    told = json.loads(stdout)
    assert {topic["topic"]: topic["end"] for topic in told["topics"]}["prices"] == 5
    assert told["groups"] == [{"group": "shoppers", "state": "Empty", "records": None, "lag": 3}]


def test_completion_knows_the_topics_and_groups_of_the_cluster(node: Node) -> None:
    def complete(line: str) -> list[str]:
        return our_tool("barnabas", ["completion", "words", "--line", line], None)[0].split()

    servers = node.bootstrap_servers
    assert complete(f"kafka-console-consumer --bootstrap-server {servers} --topic or") == ["orders"]
    assert complete(f"barnabas consumer-groups --bootstrap-server={servers} --group=") == ["shoppers"]
    assert complete(f"barnabas tail --bootstrap-server {servers} pri") == ["prices"]
    assert complete("barnabas consumer-g") == ["consumer-groups"]
    assert complete("kafka-transactions --bootstrap-server x desc") == ["describe", "describe-producers"]
    assert complete("barnabas lag --output ") == ["text", "json"]
    with patch.dict(os.environ, {"BARNABAS_BOOTSTRAP_SERVERS": servers}):
        assert complete("kafka-consumer-groups.sh --describe --group ") == ["shoppers"]
    assert complete("kafka-consumer-groups --bootstrap-server 127.0.0.1:1 --group ") == []


def test_bash_takes_the_completion_script(node: Node) -> None:
    script, _, code = our_tool("barnabas", ["completion", "bash"], None)
    assert code == 0
    asked = f"""
        barnabas() {{ printf 'alpha\\nbeta\\n'; }}
        {script}
        COMP_LINE="barnabas tail "; COMP_POINT=${{#COMP_LINE}}; _barnabas; printf '%s,' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "alpha,beta,"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_a_terminal(node: Node, tmp_path: Path) -> None:
    """Typed into a zsh that believes in its terminal: the tab key finds the topic."""
    bin_directory = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{bin_directory}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}
    main, terminal = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True
    )
    os.close(terminal)
    screen = ""

    def until(text: str) -> None:
        nonlocal screen
        deadline = time.monotonic() + 60
        while text not in screen:
            assert time.monotonic() < deadline, screen
            if select.select([main], [], [], 0.2)[0]:
                screen += os.read(main, 1 << 16).decode(errors="replace")
        screen = screen.partition(text)[2]

    try:
        os.write(main, b"autoload -U compinit; compinit -u; source <(barnabas completion zsh); echo rea''dy\n")
        until("ready\r\n")
        os.write(main, f"kafka-topics --bootstrap-server {node.bootstrap_servers} --topic or\t".encode())
        until("orders")
    finally:
        shell.kill()
        shell.wait()
        os.close(main)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["consume", "oders"], "Topic 'oders' does not exist. Did you mean orders?"),
        (["consume", "orders", "-p", "7"], "Topic 'orders' has no partition 7: it has 2, numbered from 0."),
        (["consume", "orders", "-o", "soon"], "soon is no place to begin"),
        (["consume", "orders", "-f", "%q"], "%q is not known in --format"),
        (["tail", "orders", "--since", "soon"], "soon is not a duration such as 30s"),
        (["tail", "orders", "--value", "("], "( is not a regular expression"),
        (["produce", "orders", "-K:"], "Line 1 has no ':' between key and value: x"),
        (["produce", "bad/name"], "Nothing can be sent to topic bad/name"),
    ],
)
def test_mistakes_are_told_in_a_sentence(node: Node, words: list[str], told: str) -> None:
    stdout, stderr, code = barnabas(node, *words, stdin="x\n")
    assert (stdout, code) == ("", 1)
    assert stderr.startswith(told)
    assert "Traceback" not in stderr
