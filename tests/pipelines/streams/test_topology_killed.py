"""The driver of a topology with state, killed with SIGKILL: what is committed is what a batch job computes, once.

`make soak-spark` kills thirty times, workers among them, on our node and on Apache Kafka.
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
PIPELINE = Path(__file__).with_name("killed_topology.py")


def kill_stage() -> Any:
    if "kill_stage" not in sys.modules:
        path = Path(__file__).parent.parent / "kill_stage.py"
        spec = importlib.util.spec_from_file_location("kill_stage", path)
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
@pytest.mark.parametrize("runs_on", [False, True] if KILLS > 2 else [False], ids=lambda on: "on" if on else "shuffled")
def test_state_and_results_are_what_a_batch_job_computes(servers: str, tmp_path: Path, runs_on: bool) -> None:
    kill_again_and_again(servers, tmp_path, runs_on)


def kill_again_and_again(
    servers: str, directory: Path, runs_on: bool, checkpoint: str | None = None, kills: int = KILLS, **environment: str
) -> None:
    print(f"BARNABAS_SPARK_SEED={SEED}")
    chance = random.Random(SEED)

    class Stage(kill_stage().KillStage):  # type: ignore[misc]
        def start_driver(self, command: list[str] | None = None, **more: str) -> None:
            cores = str(chance.choice((2, 3)))  # another machine may take over
            cache = chance.choice(("0", "0", "100000000"))  # with 0 state is on disk
            on = [chance.choice(("0", "1000", "3000"))] if runs_on else []
            servers, local, *topics = self.arguments()
            words = [servers, checkpoint or local, *topics, cores, cache, *on]
            super().start_driver([sys.executable, str(PIPELINE), *words], **environment | more)

    stage = Stage(servers, directory, "topology")
    try:
        stage.load.start()
        stage.start_driver()
        for number in range(kills):
            before = stage.ends("totals")
            stage.wait("progress", lambda before=before: stage.ends("totals") > before, LIFE_LIMIT_S, restart=True)
            time.sleep(chance.uniform(0, 1.5))
            if number % 2:
                stage.wait("a worker to kill", stage.kill_worker, LIFE_LIMIT_S, restart=True)
            else:
                stage.kill_driver()
                stage.start_driver()
        stage.finish(LIFE_LIMIT_S)
    finally:
        stage.close()
