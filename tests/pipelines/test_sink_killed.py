"""Drivers and workers killed with SIGKILL while a pipeline reads, aggregates and writes: what is committed in the end
is what a batch job computes. `make soak-spark` kills thirty times, on our node and on Apache Kafka.
"""

from __future__ import annotations

import importlib.util
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.testing import Node
from tests.support import reference

KILLS = int(os.environ.get("BARNABAS_SPARK_KILLS", "1"))
SEED = int(os.environ.get("BARNABAS_SPARK_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
SIDES = ["barnabas", "apache"] if KILLS > 2 else ["barnabas"]
LIFE_LIMIT_S = 180.0


def kill_stage() -> Any:
    """A module beside this one, which the tests' way of importing does not find by itself."""
    if "kill_stage" not in sys.modules:
        spec = importlib.util.spec_from_file_location("kill_stage", Path(__file__).with_name("kill_stage.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["kill_stage"] = module
        spec.loader.exec_module(module)
    return sys.modules["kill_stage"]


@pytest.fixture(params=SIDES)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "barnabas":
        with Node() as node:
            yield node.bootstrap_servers
        return
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties={"node.id": "1"}) as kafka:
        yield kafka.bootstrap_servers


@pytest.mark.timeout(120 + 150 * KILLS)
def test_what_is_committed_is_what_a_batch_job_computes(servers: str, tmp_path: Path) -> None:
    print(f"BARNABAS_SPARK_SEED={SEED}")
    chance = random.Random(SEED)
    stage = kill_stage().KillStage(servers, tmp_path, "killed")
    try:
        stage.load.start()
        stage.start_driver()
        for number in range(KILLS):
            before = stage.ends("copies"), stage.ends("totals")
            stage.wait(
                "progress",
                lambda before=before: stage.ends("copies") > before[0] and stage.ends("totals") > before[1],
                LIFE_LIMIT_S,
                restart=True,
            )
            time.sleep(chance.uniform(0, 1.5))
            if number % 2:
                stage.wait("a worker to kill", stage.kill_worker, LIFE_LIMIT_S, restart=True)
            else:
                stage.kill_driver()
                stage.start_driver()
        stage.finish(LIFE_LIMIT_S)
    finally:
        stage.close()
