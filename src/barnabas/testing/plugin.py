"""The pytest plugin that comes with the package.

`barnabas_node` is one node for the whole test run; `barnabas` is the same node, emptied before each test;
`bootstrap_servers` is its address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.node import Node


@pytest.fixture(scope="session")
def barnabas_node() -> Iterator[Node]:
    from barnabas.testing.node import Node

    with Node() as node:
        yield node


@pytest.fixture
def barnabas(barnabas_node: Node) -> Node:
    if not barnabas_node.running:
        barnabas_node.start()
    barnabas_node.reset()
    return barnabas_node


@pytest.fixture
def bootstrap_servers(barnabas: Node) -> str:
    return barnabas.bootstrap_servers
