"""The examples as modules, which find each other as they do when they run, and their topologies without Spark."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.streams import TopologyTestDriver

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
            del sys.modules[name]


@pytest.fixture
def driver(example: Callable[[str], Any]) -> Iterator[Callable[[str], TopologyTestDriver]]:
    """The driver of an example, whose topics have the partitions that it gives them."""
    opened: list[TopologyTestDriver] = []

    def drive(name: str) -> TopologyTestDriver:
        module = example(name)
        made = TopologyTestDriver(module.build(), partitions={topic.name: topic.partitions for topic in module.TOPICS})
        opened.append(made)
        return made

    yield drive
    for one in opened:
        one.close()
