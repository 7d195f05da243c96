"""The same file on a Spark cluster: a standalone master and two workers on this machine, one of which is killed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from tests.support.spark_cluster import HOME, LIMIT_S, SparkCluster, class_path, java_options


def kill_stage() -> Any:
    if "kill_stage" not in sys.modules:
        spec = importlib.util.spec_from_file_location("kill_stage", Path(__file__).with_name("kill_stage.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules["kill_stage"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["kill_stage"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    shared = kill_stage()
    made = SparkCluster(tmp_path)
    yield made
    made.close(shared.kill, shared.descendants)


@pytest.mark.timeout(900)
def test_a_worker_is_killed_in_the_middle_and_the_output_is_exactly_once(cluster: SparkCluster, tmp_path: Path) -> None:
    shared = kill_stage()
    with Node() as node:
        stage = shared.KillStage(node.bootstrap_servers, tmp_path, "cluster")
        submit = [
            str(HOME / "bin" / "spark-submit"), "--master", cluster.address,
            "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m",
            "--conf", "spark.executor.cores=1", "--driver-memory", "512m",
            "--conf", f"spark.executor.extraJavaOptions={java_options()}",
            "--conf", f"spark.executor.extraClassPath={class_path()}",
            "--driver-java-options", java_options(), "--driver-class-path", class_path(),
            str(shared.PIPELINE), *stage.arguments(),
        ]  # fmt: skip
        try:
            stage.load.start()
            stage.start_driver(submit, SPARK_LOCAL_IP="127.0.0.1")
            # Spark gives a new Python process ten seconds to answer, which may be too short for a busy machine.
            stage.wait("output", lambda: stage.ends("copies") > 0 and stage.ends("totals") > 0, LIMIT_S, restart=True)
            victim = cluster.workers[0]
            for pid in [pid for pid, _ in shared.descendants(victim.pid)] + [victim.pid]:
                shared.kill(pid)
            before = stage.ends("copies"), stage.ends("totals")
            stage.wait(
                "output after the loss",
                lambda: stage.ends("copies") > before[0] and stage.ends("totals") > before[1],
                LIMIT_S,
            )
            stage.finish(LIMIT_S)
        finally:
            stage.close()
