"""A topology whose checkpoint is on HDFS; its driver is killed in the middle. `make soak-hdfs` runs it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.streams.errors import StateUnreachable
from barnabas.pipelines.streams.state.storage import Directory, Storage
from barnabas.pipelines.streams.state.versions import PartitionState
from barnabas.testing import Node
from tests.support.hdfs import Hdfs, hdfs
from tests.support.reference_libs import ReferenceUnavailable

TOPOLOGY = Path(__file__).with_name("killed_topology.py")
LIMIT_S = 240.0
pytestmark = [
    pytest.mark.skipif("BARNABAS_HDFS" not in os.environ, reason="a namenode, a datanode and Spark: make soak-hdfs"),
    pytest.mark.timeout(1200),
]


@pytest.fixture(scope="module")
def store() -> Iterator[Hdfs]:
    try:
        with hdfs() as made:
            yield made
    except ReferenceUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["hdfs", "webhdfs"])
def directory(store: Hdfs, request: pytest.FixtureRequest) -> Directory:
    address = store.address if request.param == "hdfs" else f"webhdfs://{store.http_address}"
    return Storage(store.settings).at(f"{address}/of-{request.param}")


def test_files_are_written_whole_replaced_listed_and_removed(directory: Directory, tmp_path: Path) -> None:
    assert (directory.names(), directory.walk(), directory.size("a")) == ([], [], None)
    with pytest.raises(FileNotFoundError):
        directory.read("a")
    directory.write("a", b"one ", b"two")
    directory.write("a", b"three")
    directory.under("b", "c d").write("e%f", b"")
    assert sorted(directory.names()) == ["a", "b"]
    assert sorted(directory.walk()) == ["a", "b/c d/e%f"]
    assert (directory.read("a"), directory.size("a"), directory.size("b")) == (b"three", 5, None)
    large = tmp_path / "large"
    large.write_bytes(os.urandom(3_000_000))
    directory.store(large, "large")
    directory.fetch("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    directory.remove("a")
    directory.remove("a")
    assert not directory.has("a")
    directory.remove_all()
    assert directory.walk() == []


@pytest.mark.parametrize("cache_bytes", [1000, 1 << 20])
def test_state_goes_on_where_another_worker_left_it(directory: Directory, cache_bytes: int) -> None:
    place = directory.under(str(cache_bytes))
    for version in range(1, 80):
        state = PartitionState(place, cache_bytes=cache_bytes)
        state.load(version - 1)
        for key in range(version, version + 20):
            state.store("s").put(key, version)
        state.save(version)
        state.close()
    last = PartitionState(place, cache_bytes=cache_bytes)
    last.load(79)
    assert dict(last.store("s").data.items()) == {key: min(key, 79) for key in range(1, 99)}


def test_an_hdfs_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(StateUnreachable, match=r"^webhdfs://127.0.0.1:1/x can't be reached: Connection refused$"):
        Storage().at("webhdfs://127.0.0.1:1/x").names()
    with pytest.raises(StateUnreachable, match=r"^state can't be written to webhdfs://127.0.0.1:1/x/a: Connection ref"):
        Storage().at("webhdfs://127.0.0.1:1/x").write("a", b"")


def test_a_driver_is_killed_and_the_output_is_exactly_once(store: Hdfs, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("kill_stage", Path(__file__).parents[1] / "kill_stage.py")
    assert spec is not None
    assert spec.loader is not None
    shared: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shared)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "".join(f"spark.hadoop.{name} {value}\n" for name, value in store.settings.items())
    )
    with Node() as node:
        stage = shared.KillStage(node.bootstrap_servers, tmp_path, "hdfs", rate=100)
        checkpoint = f"{store.address}/checkpoints/killed"
        command = [sys.executable, str(TOPOLOGY), node.bootstrap_servers, checkpoint, *stage.topics.values(), "2", "0"]
        try:
            stage.load.start()
            for _ in range(2):
                before = stage.ends("totals")
                stage.start_driver(command, SPARK_CONF_DIR=str(tmp_path / "conf"))
                stage.wait("totals", lambda before=before: stage.ends("totals") > before, LIMIT_S)
                stage.kill_driver()
            stage.start_driver(command, SPARK_CONF_DIR=str(tmp_path / "conf"))
            stage.finish(LIMIT_S)
        finally:
            stage.close()
    notes = Storage(store.settings).at(checkpoint)
    assert {"offsets", "commits", "barnabas"} <= set(notes.names())
    assert any(path.endswith(".delta") for path in notes.under("barnabas", "state").walk())
