"""The pytest plugin that comes with the package.

`barnabas_node` is one node for the whole test run; `barnabas` is the same node, emptied before each test;
`bootstrap_servers` is its address. Who wants it configured overrides `barnabas_config`. `barnabas_cluster` is three
nodes for a module's tests. `sql_bench` runs statements of SQL over records, without a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.pipelines.sql.runner import Bench
    from barnabas.testing.cluster import Cluster
    from barnabas.testing.node import Node


@pytest.fixture(scope="session")
def barnabas_config() -> Mapping[str, object]:
    """Keys of Kafka's server.properties for `barnabas_node`."""
    return {}


@pytest.fixture(scope="session")
def barnabas_node(barnabas_config: Mapping[str, object]) -> Iterator[Node]:
    """One node for the whole run, in a process of its own."""
    from barnabas.testing.node import Node

    with Node(barnabas_config) as node:
        yield node


@pytest.fixture(scope="module")
def barnabas_cluster() -> Iterator[Cluster]:
    """Three nodes, each a broker and a controller, each in a process of its own."""
    from barnabas.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def barnabas(barnabas_node: Node) -> Node:
    """The node of the run without topics and dynamic configurations, started again if a test has ended it."""
    if not barnabas_node.running:
        barnabas_node.start()
    barnabas_node.reset()
    return barnabas_node


@pytest.fixture
def bootstrap_servers(barnabas: Node) -> str:
    """The address of the emptied node."""
    return barnabas.bootstrap_servers


@pytest.fixture
def sql_bench() -> Iterator[Bench]:
    """Statements, records in, records out; schemas are in a registry of the test's own."""
    from barnabas.client.serdes.mock import drop_mock
    from barnabas.pipelines.sql.runner import MOCK_REGISTRY, Bench

    bench = Bench()
    yield bench
    bench.close()
    drop_mock(MOCK_REGISTRY.removeprefix("mock://"))
