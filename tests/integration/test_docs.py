"""What the documents show is true: their Python runs, their commands exist, their links lead somewhere."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from barnabas.cli.catalogue import TOOLS, module_of, tool_of_script
from barnabas.cli.main import COMMANDS, main
from barnabas.cli.nodes import serve, server, up, up_cluster
from barnabas.testing import Node

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "testing.md", ROOT / "docs" / "client.md")
DEFAULT_ADDRESS = "localhost:9092"


class Block(NamedTuple):
    name: str
    language: str
    text: str


def blocks(*languages: str) -> list[Block]:
    found = []
    for path in DOCUMENTS:
        text = path.read_text()
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(f"{path.name}:{line}", match[1], match[2]))
    return [block for block in found if block.language in languages]


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    everything = sum(path.read_text().count("\n```") for path in DOCUMENTS)
    assert len(blocks("python", "")) * 2 == everything


# Python


@pytest.fixture
def names() -> dict[str, Any]:
    """What the reader is expected to have: a service of one's own."""
    return {"OrderService": str, "run_my_service": str}


@pytest.mark.parametrize(
    "block",
    [block for block in blocks("python") if "barnabas.spark" not in block.text],  # those run in tests/pipelines
    ids=lambda block: block.name,
)
def test_python_in_the_documents_runs(block: Block, barnabas: Node, names: dict[str, Any]) -> None:
    fixtures = {"barnabas": barnabas, "bootstrap_servers": barnabas.bootstrap_servers}
    code = block.text.replace(DEFAULT_ADDRESS, barnabas.bootstrap_servers)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, block.name, "exec"), names)
        for test in stories_in(names):
            test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
    if "consumer.poll" in code:
        assert printed.getvalue() == "b'hello'\n"


def stories_in(names: dict[str, Any]) -> list[Callable[..., None]]:
    return [each for name, each in names.items() if name.startswith("test_") and callable(each)]


def test_the_calls_in_the_table_exist() -> None:
    named = re.findall(r"`node\.(\w+)", (ROOT / "docs" / "testing.md").read_text())
    assert len(named) > 8
    node = Node()
    assert [name for name in named if not hasattr(type(node), name) and name not in vars(node)] == []


# Commands


def commands() -> list[tuple[str, str]]:
    """The lines that a reader would type: those after a prompt or, where there is no prompt, all."""
    found = []
    for block in blocks(""):
        lines = block.text.splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
        found += [(block.name, line) for line in typed if line.strip()]
    return found


@pytest.mark.parametrize(("where", "line"), commands())
def test_a_command_in_the_documents_exists(
    where: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = shlex.split(line, comments=True)
    while "=" in words[0]:
        name, _, text = words.pop(0).partition("=")
        monkeypatch.setenv(name, text)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), where
        return
    tool = words[1] if words[0] == "barnabas" else tool_of_script(words[0])
    if tool in TOOLS:
        arguments = words[2:] if words[0] == "barnabas" else words[1:]
        importlib.import_module(module_of(tool)).PARSER.parse(arguments)  # raises where an option is none
        return
    assert words[:1] == ["barnabas"], f"{where} shows a command that nobody checks: {line}"
    started = []

    def configure_only(configure: Callable[[dict[str, str]], Any], overrides: list[str], **_: Any) -> int:
        given = dict(each.split("=", 1) for each in overrides)
        started.append(configure(given))
        return 0

    monkeypatch.chdir(tmp_path)
    for name in words:
        if name.endswith(".properties"):
            Path(name).write_text("node.id=1\n")
    monkeypatch.setattr(up, "serve", configure_only)
    monkeypatch.setattr(server, "serve", configure_only)
    monkeypatch.setattr(up_cluster, "run", lambda options: started.append(options) or 0)
    assert main(words[1:]) == 0
    (config,) = started
    if "--brokers" in words:
        assert (config.brokers, config.port) == (3, 9092)
        return
    assert config.warnings == ()
    assert [each.port for each in config.broker_listeners] == [9092]


def test_the_greeting_in_the_readme_is_the_program_s(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.search(r"^\$ barnabas up\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert shown is not None
    cluster = re.search(r"cluster (\S+)", shown[1])
    assert cluster is not None
    node: Any = SimpleNamespace(
        node_id=1,
        cluster_id=cluster[1],
        describe_listeners=lambda: ["clients     localhost:9092", "controller  localhost:9093"],
        config=SimpleNamespace(log_dirs=["/home/me/barnabas-data"]),
    )
    serve._greet(node)
    assert capsys.readouterr().out == shown[1]


def test_every_command_of_the_program_is_documented() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"barnabas {name}" not in readme] == []


# Links


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL))
    local = [link for link in links if not re.match(r"https?:|mailto:", link)]
    assert [link for link in local if not (path.parent / link).exists()] == []
