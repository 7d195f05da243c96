"""docs/tools.md is what the parsers say, and every name leads to a tool."""

from __future__ import annotations

import importlib
import importlib.util
import tomllib
from pathlib import Path

import pytest

from barnabas.cli.catalogue import CLASSES, TOOLS, module_of, scripts, tool_of_script

ROOT = Path(__file__).parents[2]


def test_the_page_of_the_tools_is_current() -> None:
    path = ROOT / "tools" / "document_tools.py"
    spec = importlib.util.spec_from_file_location("document_tools", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.DOCUMENT.read_text() == module.page(), "make docs writes it anew"


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_every_tool_can_be_called(tool: str) -> None:
    module = importlib.import_module(module_of(tool))
    assert hasattr(module, "main") or (module.PARSER.name == tool and callable(module.run))


def test_every_script_is_installed_and_is_a_tool() -> None:
    installed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(scripts()) == set(installed) - {"barnabas"}
    assert all(tool_of_script(script) in TOOLS for script in scripts())
    assert set(CLASSES.values()) <= set(TOOLS)
