"""A topology whose checkpoint is in an S3 server: a Spark cluster of two workers with local directories of their own.
One of them is killed in the middle, and the driver after it. Then drivers and workers on one machine are killed again
and again over such a checkpoint. `make soak-objects` runs both, with so many kills as SPARK_KILLS says."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.streams.state.storage import Storage
from barnabas.testing import Node
from tests.support.hadoop_aws import hadoop_aws_jars
from tests.support.object_store import ObjectStoreMissing, object_store
from tests.support.reference_libs import ReferenceUnavailable

TOPOLOGY = Path(__file__).with_name("killed_topology.py")
LIMIT_S = 400.0
BUCKET = "checkpoints"
KILLS = int(os.environ.get("BARNABAS_SPARK_KILLS", "4"))


def beside(name: str) -> Any:
    if name not in sys.modules:
        here = Path(__file__).with_name(f"{name}.py")
        path = here if here.exists() else here.parents[1] / here.name
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.mark.skipif("BARNABAS_OBJECTS" not in os.environ, reason="six JVMs for minutes: make soak-objects")
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("cache", ["268435456", "0"], ids=["in-memory", "on-disk"])
def test_workers_and_the_driver_are_killed_and_the_output_is_exactly_once(tmp_path: Path, cache: str) -> None:
    shared, clusters = beside("kill_stage"), beside("test_spark_cluster")
    try:
        jars = ",".join(map(str, hadoop_aws_jars()))
        with Node() as node, object_store() as store:
            store.make_bucket(BUCKET)
            stage = shared.KillStage(node.bootstrap_servers, tmp_path, "objects", rate=100)
            cluster = clusters.SparkCluster(tmp_path)
            checkpoint = f"s3a://{BUCKET}/killed"
            settings: list[str] = []
            for name, value in store.settings.items():
                settings += ["--conf", f"spark.hadoop.{name}={value}"]
            topics = list(stage.topics.values())
            submit = [
                str(clusters.HOME / "bin" / "spark-submit"), "--master", cluster.address, "--jars", jars,
                "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m",
                "--conf", "spark.executor.cores=1", "--driver-memory", "512m", *settings,
                "--conf", f"spark.executor.extraJavaOptions={clusters.java_options()}",
                "--conf", f"spark.executor.extraClassPath={clusters.class_path()}",
                "--driver-java-options", clusters.java_options(), "--driver-class-path", clusters.class_path(),
                str(TOPOLOGY), node.bootstrap_servers, checkpoint, *topics, "submitted", cache,
            ]  # fmt: skip
            try:
                story(stage, cluster, shared, submit)
                notes = Storage(store.settings).at(checkpoint)
                assert {"offsets", "commits", "barnabas"} <= set(notes.names())
                assert any(path.endswith(".delta") for path in notes.under("barnabas", "state").walk())
            finally:
                stage.close()
                cluster.close(shared.kill, shared.descendants)
    except (ObjectStoreMissing, ReferenceUnavailable) as reason:
        pytest.skip(str(reason))


def story(stage: Any, cluster: Any, shared: Any, submit: list[str]) -> None:
    def both() -> tuple[int, int]:
        return stage.ends("copies"), stage.ends("totals")

    def grown(before: tuple[int, int]) -> bool:
        return all(now > then for now, then in zip(both(), before, strict=True))

    stage.load.start()
    stage.start_driver(submit, SPARK_LOCAL_IP="127.0.0.1")
    stage.wait("output", lambda: grown((0, 0)), LIMIT_S, restart=True)
    victim = cluster.workers[0]
    for pid in [pid for pid, _ in shared.descendants(victim.pid)] + [victim.pid]:
        shared.kill(pid)
    before = both()
    stage.wait("output after the loss of a worker", lambda: grown(before), LIMIT_S)
    stage.kill_driver()
    stage.start_driver(submit, SPARK_LOCAL_IP="127.0.0.1")
    before = both()
    stage.wait("output after the loss of the driver", lambda: grown(before), LIMIT_S, restart=True)
    stage.finish(LIMIT_S)


@pytest.mark.skipif("BARNABAS_OBJECTS" not in os.environ, reason="takes minutes: make soak-objects")
@pytest.mark.timeout(300 + 150 * KILLS)
@pytest.mark.parametrize("runs_on", [False, True], ids=["shuffled", "on"])
def test_drivers_and_workers_are_killed_again_and_again(tmp_path: Path, runs_on: bool) -> None:
    try:
        jars = ",".join(map(str, hadoop_aws_jars()))
        with Node() as node, object_store() as store:
            store.make_bucket(BUCKET)
            conf = tmp_path / "conf"
            conf.mkdir()
            settings = {f"spark.hadoop.{name}": value for name, value in store.settings.items()} | {"spark.jars": jars}
            (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
            killed = beside("test_topology_killed")
            address = f"s3a://{BUCKET}/killed-again"
            killed.kill_again_and_again(
                node.bootstrap_servers, tmp_path, runs_on, address, KILLS, SPARK_CONF_DIR=str(conf)
            )
    except (ObjectStoreMissing, ReferenceUnavailable) as reason:
        pytest.skip(str(reason))
