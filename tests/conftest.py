"""A node of the test's own. Hypothesis on a busy machine: how long an example takes says nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings

from barnabas.testing import Node

# A failure says how to have the same example again: those of a busy machine are seldom seen twice.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("unhurried")


# Unit tests that take seconds each on an idle machine: models, searches for counterexamples, other interpreters.
SLOW = (
    "unit/client/test_key_stores.py",
    "unit/core/transactions/test_model.py",
    "unit/node/storage/cleaning/test_rewrite.py",
    "unit/node/storage/cleaning/test_swap.py",
    "unit/node/storage/test_log_model.py",
    "unit/node/storage/recovery/test_index_repair.py",
    "unit/pipelines/spark/test_decoding.py",
    "unit/pipelines/spark/startup/test_fork_server.py",
    "unit/pipelines/spark/test_sink_batches.py",
    "unit/pipelines/spark/test_sink_digest.py",
    "unit/pipelines/spark/test_sink_murmur2.py",
    "unit/pipelines/streams/test_batch_ends.py",
    "unit/pipelines/streams/test_properties.py",
    "unit/pipelines/streams/test_spellings.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).endswith(SLOW):
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Leaves the names of the tests that failed to whoever runs them (tools/run_tests.py)."""
    if path := os.environ.get("BARNABAS_FAILED_TESTS"):
        failed = {
            report.nodeid for outcome in ("failed", "error") for report in terminalreporter.stats.get(outcome, [])
        }
        Path(path).write_text("\n".join(sorted(failed)))


@pytest.fixture
def own_node() -> Iterator[Node]:
    """One that may be stopped, killed and changed for good; `barnabas` is one for all tests."""
    with Node() as node:
        yield node
