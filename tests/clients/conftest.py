"""Real clients against a real node. With BARNABAS_TEST_BOOTSTRAP=HOST:PORT they run against that cluster instead,
Apache Kafka for instance, which shows that a test asks for nothing that Kafka does not do."""

import itertools
import os
from collections.abc import Iterator

import pytest

from barnabas.testing import Node

# Records of 2023 are read back: no round of retention may take them away in between.
CONFIG = {"log.initial.task.delay.ms": 3_600_000}
FOREIGN = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_node() -> Iterator[Node | None]:
    if FOREIGN:
        yield None
    else:
        with Node(CONFIG) as node:
            yield node


@pytest.fixture
def servers(shared_node: Node | None) -> str:
    return shared_node.bootstrap_servers if shared_node else str(FOREIGN)


@pytest.fixture
def topic() -> str:
    return f"topic-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def own_node() -> Iterator[Node]:
    """A node of the test's own, to be restarted and killed."""
    with Node(CONFIG) as node:
        yield node
