"""Clients of all kinds while nodes of a cluster are killed, cut off and hang: the judge finds nothing wrong.

A short run with a fault or two of three kinds; `make chaos MINUTES=10 SEED=17` is the long one, with all kinds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing import Cluster
from tests.support.chaos.run import CONFIG, Run

# For a service that comes back, which takes some seconds where there is nothing else to do.
BUSY_S = 180.0


@pytest.mark.slow
@pytest.mark.timeout(900)  # a busy machine is slow to get back into service, and the judge has its own limits for that
def test_nothing_is_lost_repeated_or_torn_under_faults(tmp_path: Path) -> None:
    run = Run(seed=7, seconds=8, kinds=["kill", "isolate", "pause"], limit_s=BUSY_S)
    with Cluster(brokers=3, config=CONFIG, links=True, data_dir=tmp_path, timeout_s=BUSY_S) as cluster:
        report = run(cluster)
    assert not report.anomalies, report.text()
    assert report.faults
    assert report.figures["transactions committed"], report.text()
    assert report.figures["read by the group"], report.text()
