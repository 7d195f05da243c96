"""Whatever stands in a file or on the command line: a sentence, never a traceback."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.catalogue import module_of
from barnabas.cli.options import Option, Parser
from barnabas.testing import Node

from .clusters import our_tool

CONTENTS = [
    None,
    3,
    "text",
    [],
    {},
    {"partitions": 3, "topics": 3},
    {"partitions": None, "topics": None},
    {"partitions": [3], "topics": [3]},
    {"partitions": [{}], "topics": [{}]},
    {"partitions": [{"topic": 3, "partition": "x", "offset": None, "replicas": "x"}], "topics": [{"topic": 3}]},
    {"partitions": [{"topic": "t", "partition": 0, "offset": "x", "replicas": ["x"]}], "topics": [{"topic": None}]},
    {"partitions": [{"topic": "t", "partition": 2**40, "offset": 2**70, "replicas": [2**40]}], "version": "x"},
    {"partitions": [{"topic": "t", "partition": -1, "offset": -5, "replicas": [-1], "log_dirs": 3}], "version": 1},
    {"partitions": [{"topic": "t", "partition": True, "offset": 1.5, "replicas": [1], "log_dirs": [1]}], "version": 1},
]
COMMANDS = [
    ("kafka-delete-records", "--offset-json-file", "FILE"),
    ("kafka-leader-election", "--election-type", "preferred", "--path-to-json-file", "FILE"),
    ("kafka-reassign-partitions", "--execute", "--reassignment-json-file", "FILE"),
    ("kafka-reassign-partitions", "--verify", "--reassignment-json-file", "FILE"),
    ("kafka-reassign-partitions", "--cancel", "--reassignment-json-file", "FILE"),
    ("kafka-reassign-partitions", "--generate", "--topics-to-move-json-file", "FILE", "--broker-list", "1"),
]
# Those that ask and answer; others run until they are stopped.
ASKING = (
    *("acls", "broker-api-versions", "client-metrics", "cluster", "configs", "delete-records", "dump-log", "features"),
    *("get-offsets", "groups", "leader-election", "log-dirs", "metadata-quorum", "reassign-partitions", "storage"),
    "topics",
)
ODD = ["", "-1", "ä", "99999999999999999999", "a=b", "[", ","]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        node.create_topic("t")
        yield node


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_files_that_make_no_sense_are_told_in_a_sentence(node: Node, command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for content in CONTENTS:
        path.write_text(json.dumps(content))
        words = [word.replace("FILE", str(path)) for word in command[1:]]
        stdout, stderr, _ = our_tool(command[0], ["--bootstrap-server", node.bootstrap_servers, *words], None)
        assert stdout or stderr, content


@pytest.mark.parametrize("tool", ASKING)
def test_odd_values_of_every_option_are_told_in_a_sentence(
    node: Node, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(module_of(tool))
    monkeypatch.chdir(tmp_path)
    for command in module.PARSER.commands or (None,):
        before = _base(module.PARSER, command, node)
        options = (*module.PARSER.options, *(command.options if command else ()))
        for option in options:
            for value in ODD if option.takes else [""]:
                words = [option.names[0], *([value] if option.takes else [])]
                if option.name not in ("bootstrap-server", "bootstrap-controller", "zookeeper"):
                    our_tool(f"kafka-{tool}", [*before, *words, *_action(module.PARSER, option)], "")


def _base(parser: Parser, command: Parser | None, node: Node) -> list[str]:
    words = [command.name] if command else []
    takes = {option.name for option in parser.options}
    return [*words, *(["--bootstrap-server", node.bootstrap_servers] if "bootstrap-server" in takes else [])]


def _action(parser: Parser, given: Option) -> list[str]:
    names = [option.name for option in parser.options if option.takes is None]
    action = next((name for name in ("describe", "list") if name in names), None)
    return [f"--{action}"] if action is not None and given.name != action else []
